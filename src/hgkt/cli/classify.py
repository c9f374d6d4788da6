"""`hgkt classify`: what is in photographs, or what texts say, by a model that reads them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hgkt.cli._inputs import NO_THRESHOLDS, candidate_names, item_reader, load_model, read_items
from hgkt.cli._options import AnswerOptions, ReaderOptions, with_options
from hgkt.cli._output import check_suffix, emit, note, percent, say, show_table, write_frame

if TYPE_CHECKING:
    from hgkt.items import Answer

_NEAREST = 3  # learned classes that explain an answer


@with_options
def classify_command(
    model: Path,
    items: Annotated[list[str] | None, typer.Argument()] = None,
    input_file: Annotated[Path | None, typer.Option("--input")] = None,
    *,
    asked: AnswerOptions,
    level: str | None = None,
    at_least: float | None = None,
    explain: Annotated[bool, typer.Option("--explain")] = False,
    out_file: Annotated[Path | None, typer.Option("--out")] = None,
    reading: ReaderOptions,
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
    check_suffix(out_file, ".csv")
    classifier = load_model(model)
    names = candidate_names(classifier, asked.among)
    classifier.candidates(names)  # wrong names are told before items are read
    wanted = int(level) if level is not None and level.isdecimal() else level
    if wanted is not None:
        classifier.taxonomy().level(wanted)
    noun, key = ("text", "text") if classifier.about_.get("text_encoder") else ("photo", "file")
    reader = item_reader(classifier, reading)
    given = read_items(reader, items or [], input_file)
    calibrated = classifier.confidence_ is not None
    if not calibrated:
        note(f"probabilities are not calibrated: {NO_THRESHOLDS}")
    answers = reader.answers(
        given.features, asked.top, names, asked.reject, asked.coverage, wanted, at_least
    )
    rows = [
        {key: name, **_answer(answer, asked.top)}
        for name, answer in zip(given.names, answers, strict=True)
    ]
    if explain:
        reasons = reader.explain_features(given.features, _NEAREST, names)
        for row, reason in zip(rows, reasons, strict=True):
            row["nearest"] = [vars(relative) for relative in reason.nearest]
    document: dict[str, Any] = {
        "model": model,
        "among": asked.among,
        "calibrated": calibrated,
        f"n_{noun}s": len(rows),
        "level": wanted,
        "at_least": at_least,
        "n_rejected": sum(answer.rejected for answer in answers),
        f"{noun}s": rows,
        **given.report(),
    }
    if out_file is not None:
        _write(out_file, rows)
        document["out"] = out_file
    emit(document, lambda: _render(document, rows, noun, key))


def _answer(answer: Answer, top: int) -> dict[str, Any]:
    """Return what JSON says of one item; without an answer the label is null."""
    best = answer.guess
    row: dict[str, Any] = {
        "label": answer.label,
        "probability": best and best.probability,
        "seen": best and best.seen,
        "rejected": answer.rejected,
        "novelty": answer.novelty,
    }
    if answer.set is not None:
        row["set"] = list(answer.set)
    if top > 1:
        row["top"] = [vars(guess) for guess in answer.guesses]
    return row


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write one row per item: its class, how sure that is, then class_2, probability_2, …."""
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
    write_frame(path, records)


# ---------------------------------------------------------------------- what is shown
def _render(document: dict[str, Any], rows: list[dict[str, Any]], noun: str, key: str) -> None:
    if "out" in document:
        say(f"wrote {len(rows)} answers to {document['out']}")
        return
    sources = {True: f"{noun}s", False: "description", None: "–"}
    lines = []
    for row in rows:
        guesses = row.get("top", [row])
        if row["label"] is None:
            word = "unknown" if row["rejected"] else "unsure"
            guesses = [{"label": word, "probability": None, "seen": None}, *row.get("top", [])]
        elif guesses[0]["label"] != row["label"]:
            guesses = [row, *guesses]  # it backed off, to a group
        for guess in guesses:
            sure = [guess["label"], percent(guess["probability"]), sources[guess["seen"]]]
            is_first = guess is guesses[0]
            members = ", ".join(map(str, row.get("set", []))) if is_first else None
            lines.append([row[key] if is_first else None, *sure, members])
        lines += [[f"  near {_near(near)}", *[None] * 4] for near in row.get("nearest", [])]
    show_table([noun, "class", "probability", "known by", "set"], lines, whole=True)


def _near(near: dict[str, Any]) -> str:
    example = f", such as {near['example']}" if near["example"] else ""
    return f"{near['label']} ({percent(near['probability'])}){example}"
