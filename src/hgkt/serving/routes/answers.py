"""Predictions as answers have them: JSON, or an Arrow stream."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from hgkt._plain import plain
from hgkt.estimators.ranking import SureRanking
from hgkt.serving.editions import Edition
from hgkt.serving.ranking import Ranking, Reason


def write_json(edition: Edition, ranking: Ranking, reasons: Sequence[Reason] | None) -> bytes:
    """Return the JSON answer; pieces that repeat from row to row are written once."""
    starts = {
        column: f'"label":{json.dumps(edition.names[column])},'
        f'"seen":{json.dumps(bool(edition.seen[column]))},"score":'
        for column in np.unique(ranking.columns).tolist()
    }
    whys = ["null"] * len(ranking.columns)
    if reasons is not None:
        whys = [json.dumps(plain(reason)) for reason in reasons]
    rows = []
    for row, (columns, scores, why) in enumerate(
        zip(ranking.columns.tolist(), ranking.scores.tolist(), whys, strict=True)
    ):
        entries = [f"{starts[c]}{s!r}" for c, s in zip(columns, scores, strict=True)]
        first, rest = entries[0], ""
        if ranking.sureness is not None:
            first, entries, rest = _surely(ranking.sureness, row, entries)
        rows.append(f'{{{first},"top":[{{{"},{".join(entries)}}}],{rest}"explanation":{why}}}')
    return f'{{"revision":{edition.revision},"predictions":[{",".join(rows)}]}}'.encode()


def _surely(sureness: SureRanking, row: int, entries: list[str]) -> tuple[str, list[str], str]:
    """Return the first entry, all entries, and what follows them, with how sure they are."""
    chances = sureness.probabilities[row].tolist()
    entries = [
        f'{text},"probability":{chance!r}' for text, chance in zip(entries, chances, strict=False)
    ]
    first = entries[0]
    if sureness.unknown[row]:
        first = f'"label":null,"seen":null,"score":null,"probability":{chances[0]!r}'
    names = "null"
    if sureness.sets is not None:
        names = json.dumps([str(name) for name in sureness.sets[row]])
    return first, entries, f'"novelty":{float(sureness.novelty[row])!r},"set":{names},'


def write_arrow(edition: Edition, ranking: Ranking) -> bytes:
    """Return the answer as an Arrow stream: label, seen, score; lists where more are asked for."""
    import pyarrow as pa

    n_rows, k = ranking.columns.shape
    labels = pa.array(edition.names, pa.string()).take(pa.array(ranking.columns.ravel()))
    scores = pa.array(np.ascontiguousarray(ranking.scores).ravel())
    best = pa.array(np.arange(n_rows) * k)
    columns = {
        "label": labels.take(best),
        "seen": pa.array(edition.seen[ranking.columns[:, 0]]),
        "score": scores.take(best),
    }
    if k > 1:
        offsets = pa.array(np.arange(n_rows + 1, dtype=np.int32) * k)
        columns["top_labels"] = pa.ListArray.from_arrays(offsets, labels)
        columns["top_scores"] = pa.ListArray.from_arrays(offsets, scores)
    table = pa.table(columns).replace_schema_metadata({"revision": str(edition.revision)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
