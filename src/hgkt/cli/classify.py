"""`hgkt classify`: what is in photographs, by a model that was trained on images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hgkt._files import atomic_file, escape_frame
from hgkt.cli._inputs import candidate_names, read_images, show_unreadable
from hgkt.cli._options import (
    AmongOption,
    Device,
    DeviceOption,
    JsonOption,
    ModelOption,
    RejectOption,
    TopOption,
    WeightsOption,
)
from hgkt.cli._output import emit, note, say
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    from hgkt.items import Answer, Explanation

_NEAREST = 3  # learned classes that explain an answer


def classify_command(
    photos: Annotated[list[Path], typer.Argument(help="Images, and folders of images.")],
    model: ModelOption,
    top: TopOption = 1,
    among: AmongOption = "all",
    reject: RejectOption = None,
    coverage: Annotated[
        float | None,
        typer.Option(
            "--set",
            metavar="SHARE",
            help="Also give the classes among which the true one is, so often, e.g. 0.9.",
            show_default=False,
        ),
    ] = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Also name the nearest learned classes, with examples."),
    ] = False,
    out_file: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the answers to a .csv.")
    ] = None,
    weights: WeightsOption = None,
    device: DeviceOption = Device.auto,
    as_json: JsonOption = False,
) -> None:
    """Name what is in photos, and say how sure that is.

    The answer says whether a class was learned from photos or is known by description.

    Example: hgkt classify new.jpg more/ --model photo-model --top 3 --reject 0.05
    """
    from hgkt.estimators import load_model
    from hgkt.items import ImageClassifier

    if out_file is not None and out_file.suffix != ".csv":
        raise DataError(f"--out must end in .csv; got {str(out_file)!r}")
    classifier = load_model(model)
    names = candidate_names(classifier, among)
    classifier.candidates(names)  # wrong names are told before photos are read
    given = read_images(photos, classifier, weights, str(device))
    show_unreadable(given)
    reader = ImageClassifier(classifier)
    if classifier.confidence_ is None:
        note("probabilities are not calibrated: this model has no thresholds from validation")
    answers = reader.answers(given.features, top, names, reject, coverage)
    reasons = reader.explain_features(given.features, _NEAREST, names) if explain else None
    rows = [
        {"file": file, **_answer(answer, top), **({} if reasons is None else _reason(reasons[row]))}
        for row, (file, answer) in enumerate(zip(given.files or (), answers, strict=True))
    ]
    document: dict[str, Any] = {
        "model": model,
        "among": among,
        "calibrated": classifier.confidence_ is not None,
        "n_photos": len(rows),
        **({} if reject is None else {"n_rejected": sum(row["label"] is None for row in rows)}),
        "photos": rows,
        **given.report(),
    }
    if out_file is not None:
        _write(out_file, rows)
        document["out"] = out_file
    emit(document, as_json, lambda: _render(document, "photo", "photos"))


def _answer(answer: Answer, top: int) -> dict[str, Any]:
    """Return what JSON says of one item; of a rejected one the label is null."""
    best = answer.guesses[0]
    known = answer.label is not None
    row: dict[str, Any] = {
        "label": answer.label,
        "probability": best.probability if known else None,
        "seen": best.seen if known else None,
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
    with atomic_file(path) as scratch:
        escape_frame(pd.DataFrame(records)).to_csv(scratch, index=False)


# ---------------------------------------------------------------------- what is shown
def _render(document: dict[str, Any], noun: str, learned_from: str) -> None:
    rows = document["photos"]
    if "out" in document:
        say(f"wrote {len(rows)} answers to {document['out']}")
        return
    sources = {True: learned_from, False: "description", None: "–"}
    head = [noun, "class", "probability", "known by"]
    lines: list[Any] = [(*head, "set") if "set" in rows[0] else (*head,)]
    for row in rows:
        guesses = row.get("top", [row])
        if row["label"] is None:
            unknown = {"label": "unknown", "probability": None, "seen": None}
            guesses = [unknown, *row.get("top", [])]
        for rank, guess in enumerate(guesses):
            cells = [row["file"] if rank == 0 else "", *_cells(guess, sources)]
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
    return [str(guess["label"]), _percent(guess["probability"]), sources[guess["seen"]]]


def _near(near: dict[str, Any]) -> str:
    example = f", such as {near['example']}" if near["example"] else ""
    return f"{near['label']} ({_percent(near['probability'])}){example}"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"
