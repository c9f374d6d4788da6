"""`hgkt classify`: what is in photographs, or what texts say, by a model that reads them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hgkt.cli._inputs import (
    NO_THRESHOLDS,
    Input,
    candidate_names,
    load_model,
    read_images,
    read_texts,
    reader_of,
    table_texts,
)
from hgkt.cli._options import (
    AmongOption,
    CoverageOption,
    Device,
    DeviceOption,
    JsonOption,
    ModelOption,
    RejectOption,
    TopOption,
    WeightsOption,
    with_options,
)
from hgkt.cli._output import emit, note, percent, say, write_frame
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    from hgkt.items import Answer, Explanation, ImageClassifier, TextClassifier

_NEAREST = 3  # learned classes that explain an answer


@with_options
def classify_command(
    model: ModelOption,
    items: Annotated[list[str] | None, typer.Argument()] = None,
    input_file: Annotated[Path | None, typer.Option("--input")] = None,
    top: TopOption = 1,
    among: AmongOption = "all",
    reject: RejectOption = None,
    coverage: CoverageOption = None,
    level: Annotated[str | None, typer.Option(show_default=False)] = None,
    at_least: Annotated[float | None, typer.Option(show_default=False)] = None,
    explain: Annotated[bool, typer.Option("--explain")] = False,
    out_file: Annotated[Path | None, typer.Option("--out")] = None,
    weights: WeightsOption = None,
    device: DeviceOption = Device.auto,
    as_json: JsonOption = False,
) -> None:
    """Name what is in photos, or what texts say, and how sure that is.

    The answer says whether a class was learned from items or is known by description.

    Example: hgkt classify new.jpg more/ --model photo-model --top 3 --reject 0.05

    Example: hgkt classify new.jpg --model photo-model --at-least 0.8

    Example: hgkt classify "I lost my card" --model text-model

    Parameters
    ----------
    items
        Images and folders of images; of a model of texts, texts.
    input_file : FILE
        Texts: table with a column text (.csv, .jsonl).
    level : LEVEL
        Answer with groups of this level: group, or a number from 1, the top.
    at_least : SHARE
        Answer with the class, else with the deepest group, that is so probable, e.g. 0.8.
    explain
        Also name the nearest learned classes, with examples.
    out_file : FILE
        Write the answers to a .csv.
    """
    if out_file is not None and out_file.suffix != ".csv":
        raise DataError(f"--out must end in .csv; got {str(out_file)!r}")
    classifier = load_model(model)
    names = candidate_names(classifier, among)
    classifier.candidates(names)  # wrong names are told before items are read
    wanted = int(level) if level is not None and level.isdecimal() else level
    if wanted is not None:
        classifier.taxonomy().level(wanted)
    noun, key = ("text", "text") if classifier.about_.get("text_encoder") else ("photo", "file")
    reader = reader_of(classifier, weights, str(device))
    given = _read(reader, items or [], input_file)
    if classifier.confidence_ is None:
        note(f"probabilities are not calibrated: {NO_THRESHOLDS}")
    answers = reader.answers(given.features, top, names, reject, coverage, wanted, at_least)
    reasons = reader.explain_features(given.features, _NEAREST, names) if explain else None
    rows = [
        {key: item, **_answer(answer, top), **({} if reasons is None else _reason(reasons[row]))}
        for row, (item, answer) in enumerate(zip(given.names, answers, strict=True))
    ]
    document: dict[str, Any] = {
        "model": model,
        "among": among,
        "calibrated": classifier.confidence_ is not None,
        f"n_{noun}s": len(rows),
        **({} if level is None else {"level": wanted}),
        **({} if at_least is None else {"at_least": at_least}),
        **({} if reject is None else {"n_rejected": sum(answer.rejected for answer in answers)}),
        f"{noun}s": rows,
        **given.report(),
    }
    if out_file is not None:
        _write(out_file, rows)
        document["out"] = out_file
    emit(document, as_json, lambda: _render(document, noun, key))


def _read(reader: ImageClassifier | TextClassifier, items: list[str], table: Path | None) -> Input:
    """Return the features of photos, or of texts of the command line and of a table."""
    from hgkt.items import TextClassifier

    if isinstance(reader, TextClassifier):
        texts = [*items, *([] if table is None else table_texts(table))]
        if not texts:
            raise DataError("say what to classify: texts, or --input FILE with a column text")
        return read_texts(texts, reader)
    if table is not None:
        raise DataError("--input is for texts; give photos and folders of photos as arguments")
    if not items:
        raise DataError("say what to classify: photos, or folders of photos")
    return read_images([*map(Path, items)], reader)


def _answer(answer: Answer, top: int) -> dict[str, Any]:
    """Return what JSON says of one item; without an answer the label is null."""
    best = answer.guess
    row: dict[str, Any] = {
        "label": answer.label,
        "probability": None if best is None else best.probability,
        "seen": None if best is None else best.seen,
        "rejected": answer.rejected,
        "novelty": answer.novelty,
    }
    if answer.set is not None:
        row["set"] = list(answer.set)
    if top > 1:
        row["top"] = [vars(guess) for guess in answer.guesses]
    return row


def _reason(reason: Explanation) -> dict[str, Any]:
    return {"nearest": [vars(relative) for relative in reason.nearest]}


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write one row per item: its class, how sure that is, then class_2, probability_2, …."""
    import pandas as pd

    records = []
    for row in rows:
        record = {name: value for name, value in row.items() if not isinstance(value, list)}
        if "set" in row:
            record["set"] = "; ".join(map(str, row["set"]))
        for rank, guess in enumerate(row.get("top", [])[1:], start=2):
            record |= {f"label_{rank}": guess["label"], f"probability_{rank}": guess["probability"]}
        for rank, near in enumerate(row.get("nearest", []), start=1):
            record |= {f"nearest_{rank}": near["label"], f"example_{rank}": near["example"]}
        records.append(record)
    write_frame(path, pd.DataFrame(records))


# ---------------------------------------------------------------------- what is shown
def _render(document: dict[str, Any], noun: str, key: str) -> None:
    rows = document[f"{noun}s"]
    if "out" in document:
        say(f"wrote {len(rows)} answers to {document['out']}")
        return
    sources = {True: f"{noun}s", False: "description", None: "–"}
    head = [noun, "class", "probability", "known by"]
    lines: list[Any] = [(*head, "set") if "set" in rows[0] else (*head,)]
    for row in rows:
        guesses = row.get("top", [row])
        if row["label"] is None:
            word = "unknown" if row["rejected"] else "unsure"
            guesses = [{"label": word, "probability": None, "seen": None}, *row.get("top", [])]
        elif guesses[0]["label"] != row["label"]:
            guesses = [row, *guesses]  # it backed off, to a group
        for rank, guess in enumerate(guesses):
            cells = [row[key] if rank == 0 else "", *_cells(guess, sources)]
            if "set" in row:
                cells.append(", ".join(map(str, row["set"])) if rank == 0 else "")
            lines.append(cells)
        lines += [f"  near {_near(near)}" for near in row.get("nearest", [])]
    # No table of rich's: it would cut the names of files to the width of the terminal.
    table = [line for line in lines if not isinstance(line, str)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in lines:
        if not isinstance(line, str):
            line = "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        say(line.rstrip())


def _cells(guess: Any, sources: dict[bool | None, str]) -> list[str]:
    return [str(guess["label"]), percent(guess["probability"]), sources[guess["seen"]]]


def _near(near: dict[str, Any]) -> str:
    example = f", such as {near['example']}" if near["example"] else ""
    return f"{near['label']} ({percent(near['probability'])}){example}"
