"""`hgkt predict` and `hgkt explain`: the best classes of rows of features, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from hgkt._validation import UNKNOWN, label_of
from hgkt.cli._inputs import candidate_names, check_backbone, load_matching, load_model
from hgkt.cli._options import AnswerOptions, Device, EngineOptions, with_options
from hgkt.cli._output import (
    check_suffix,
    counted,
    emit,
    listed,
    note,
    progress_bar,
    say,
    show_table,
    write_frame,
)
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    from hgkt.estimators import GZSLClassifier
    from hgkt.evaluation.confidence import Answers

_SHOWN_ROWS, _SHOWN_CLASSES = 20, 12
_BAR_WIDTH = 24
_TABLES = (".csv", ".parquet")


@with_options
def predict_command(
    model: Path,
    input_file: Annotated[Path | None, typer.Option("--input")] = None,
    data: str | None = None,
    split: str = "test_unseen",
    *,
    asked: AnswerOptions,
    out_file: Annotated[Path | None, typer.Option("--out")] = None,
    root: Path | None = None,
    features: str | None = None,
    engine: EngineOptions,
    device: Device = "auto",
) -> None:
    """Predict the classes of rows of features; photos and texts are for `hgkt classify`.

    With --data the accuracy is measured too. Parquet files of any number of rows go to a folder,
    one file each; what is there is not made again.

    Example: hgkt predict --model digits-model --data digits --split test_unseen --top 3

    Parameters
    ----------
    input_file : FILE
        Features (.npy, .npz, .csv, .parquet, .mat).
    data : NAME
        Instead of --input: a data set, name or path; with --out FOLDER: Parquet files.
    split : NAME
        Of --data: train, test_seen or test_unseen.
    out_file : PATH
        Write the predictions: .csv, .parquet, or a folder for many Parquet files.
    features : NAME, default the model's
        Of --data: feature file.
    """
    from hgkt.data import read_features
    from hgkt.evaluation.confidence import answer_rows, use_device

    if (input_file is None) == (data is None):
        raise DataError("say what to predict: either --input FILE or --data NAME")
    if data is not None and out_file is not None and _is_bulk(data, out_file):
        done = _predict_in_bulk(model, Path(data), out_file, asked, engine, device)
        emit(done, lambda: _render_bulk(done))
        return
    if engine.are_given:
        raise DataError(
            "--engine and --workers are for Parquet files whose predictions go to a folder: give "
            "--data FOLDER and --out FOLDER"
        )
    check_suffix(out_file, *_TABLES)  # a folder is for Parquet files
    loaded = load_model(model)
    use_device(loaded, device)
    truth = None
    if input_file is not None:
        X = read_features(input_file, loaded.n_features_in_)
    else:
        dataset = load_matching(loaded, str(data), root, features)
        check_backbone(loaded, dataset.about, dataset.name)
        X, truth = dataset.rows(split)
        if not len(X):
            raise DataError(f"data set {dataset.name!r} has no rows in {split}; choose --split")
    candidates = loaded.candidates(candidate_names(loaded, asked.among))
    answers = answer_rows(loaded, X, candidates, asked.top, asked.reject, asked.coverage)
    labels = answers.labels[:, 0]
    document: dict[str, Any] = {"model": model, "among": asked.among, "n_rows": len(X)}
    if asked.reject is not None:
        document["n_rejected"] = int(np.sum(labels == UNKNOWN))
    if truth is not None:
        answers.extra["truth"] = truth
        document |= {"data": data, "split": split, **_accuracy(loaded, truth, labels)}
    if out_file is not None:
        write_frame(out_file, {"row": np.arange(len(X)), **answers.columns()})
        document["out"] = out_file
    document["predictions"] = _records(answers)
    emit(document, lambda: _render(document))


def _accuracy(
    model: GZSLClassifier, truth: NDArray[Any], predicted: NDArray[Any]
) -> dict[str, Any]:
    """Return the accuracy of the rows that got an answer: a rejected one is no mistake."""
    import pandas as pd

    unknown = sorted(set(truth.tolist()) - set(model.classes_.tolist()))
    if unknown:
        note(
            f"the model lacks {len(unknown)} of these classes ({listed(unknown)}); their rows "
            "count as wrong: add them with `hgkt classes add`"
        )
    right = pd.Series(predicted == truth)[predicted != UNKNOWN]
    per_class = 100 * right.groupby(truth[predicted != UNKNOWN]).mean()
    accuracy = None if per_class.empty else float(per_class.mean())
    return {"accuracy": accuracy, "per_class": per_class.to_dict()}


def _records(answers: Answers) -> list[dict[str, Any]]:
    """Return what JSON says of each row."""
    records = []
    for row, names in enumerate(answers.labels.tolist()):
        pairs = zip(names, answers.scores[row].tolist(), strict=True)
        top = [{"label": name, "score": score} for name, score in pairs]
        record = {"row": row, **top[0]}
        record |= {name: column[row] for name, column in answers.extra.items()}
        if top[0]["label"] == UNKNOWN:
            record["label"] = None
        records.append(record | ({"top": top} if len(top) > 1 else {}))
    return records


def _render(document: dict[str, Any]) -> None:
    rows = document["predictions"]
    if "out" in document:
        say(f"wrote {len(rows)} predictions to {document['out']}")
    else:
        names = ["next" if name == "top" else name for name in rows[0]]
        show_table(names, (map(_cell, row.values()) for row in rows[:_SHOWN_ROWS]))
        if len(rows) > _SHOWN_ROWS:
            say(f"… {len(rows) - _SHOWN_ROWS} more rows; --out or --json has them all")
    measured = document.get("accuracy") is not None
    if "n_rejected" in document:
        count, total = document["n_rejected"], document["n_rows"]
        rest = f"; the accuracy is that of the other {total - count}" if count and measured else ""
        verb = "was" if count == 1 else "were"
        say(f"{count} of {counted(total, 'row')} {verb} rejected as unknown{rest}")
    if measured:
        _say_accuracy(document)


def _say_accuracy(document: Mapping[str, Any]) -> None:
    """Print the mean accuracy over classes, and those of all classes or the two ends."""
    ordered = sorted(document["per_class"].items(), key=lambda item: item[1])
    words = [f"{name} {value:.1f}" for name, value in ordered]
    if len(words) > _SHOWN_CLASSES:
        words = [*words[:3], f"… {len(words) - 6} more …", *words[-3:]]
    say(f"accuracy {document['accuracy']:.1f} % (mean over classes): {', '.join(words)}")


def _cell(value: Any) -> str:
    """A score with four digits, of the best classes those after the first, text as it is."""
    if isinstance(value, list):
        return ", ".join(f"{item['label']} {item['score']:.4f}" for item in value[1:])
    if value is None:
        return "–"
    return f"{value:.4f}" if isinstance(value, float) else str(value)


# ---------------------------------------------------------------------- many Parquet files
def _is_bulk(data: str, out: Path) -> bool:
    """Say whether predictions of Parquet files are to be written to a folder."""
    rows = Path(data).is_dir() or Path(data).suffix == ".parquet"
    return rows and out.suffix not in _TABLES


def _predict_in_bulk(
    model: Path, data: Path, out: Path, asked: AnswerOptions, engine: EngineOptions, device: Device
) -> dict[str, Any]:
    """Predict all rows of Parquet files, and return what was done."""
    from hgkt.data.tables import read_extra
    from hgkt.evaluation import predict_shards

    loaded = load_model(model)
    extra = data / "dataset.json"
    if extra.is_file():
        check_backbone(loaded, read_extra(extra).get("about", {}), data.name)
    with progress_bar() as bar:
        report = predict_shards(
            model,
            data,
            out,
            top_k=asked.top,
            among=candidate_names(loaded, asked.among),
            reject=asked.reject,
            coverage=asked.coverage,
            device=device,
            n_workers=engine.workers,
            progress=bar,
            **engine.engine_and_address(),
        )
    document = vars(report) | {"model": model, "data": data, "out": out, "among": asked.among}
    document["n_files"] = report.n_made + report.n_there
    if per_class := report.per_class:
        document |= {"accuracy": float(np.mean([*per_class.values()])), "per_class": per_class}
    if report.left_alone:
        note(
            f"{out} also has {len(report.left_alone)} Parquet files that this command did not "
            f"write ({report.left_alone[0]}, …); they are left alone"
        )
    return document


def _render_bulk(document: dict[str, Any]) -> None:
    earlier = f" ({document['n_there']} of them were there)" if document["n_there"] else ""
    files = counted(document["n_files"], "file")
    say(f"{document['n_rows']} predictions in {files}{earlier}: {document['out']}")
    if "accuracy" in document:
        _say_accuracy(document)


# ---------------------------------------------------------------------- explanations
@with_options
def explain_command(
    model: Path,
    class_name: Annotated[str | None, typer.Option("--class")] = None,
    input_file: Annotated[Path | None, typer.Option("--input")] = None,
    row: Annotated[int, typer.Option(min=0)] = 0,
    top: Annotated[int, typer.Option(min=1)] = 5,
) -> None:
    """Show from which seen classes a class, or an answer, was made.

    Example: hgkt explain --model model --class six

    Example: hgkt explain --model model --input features.npy --row 3

    Parameters
    ----------
    class_name : NAME
        Explain how a class was made.
    input_file : FILE
        Features (.npy, .npz, .csv, .parquet, .mat); photos and texts are explained by `hgkt
        classify --explain`.
    row : N
        Row of --input to explain, counted from 0.
    top : N
        How many classes to show.
    """
    from hgkt.data import read_features

    if (class_name is None) == (input_file is None):
        raise DataError("say what to explain: either --class NAME or --input FILE with --row")
    loaded = load_model(model)
    if not hasattr(loaded, "explain_class"):
        kind = type(loaded).__name__
        raise DataError(f"{kind} does not explain itself; only hgkt and hgkt-network do")
    if input_file is None:
        found: Any = loaded.explain_class(label_of(loaded, str(class_name)))
        document, key = found.to_dict(), "sources"
    else:
        X = read_features(input_file, loaded.n_features_in_)
        if row >= len(X):
            raise DataError(f"--row {row} is beyond {input_file}, which has rows 0 to {len(X) - 1}")
        found = loaded.explain(X[row : row + 1], n_runner_ups=top)[0]
        document, key = {"row": row, **found.to_dict()}, "pulls"
    document[key] = document[key][:top]
    parts = [(one.label, one.weight) for one in getattr(found, key)[:top]]
    if found.description:
        parts.insert(0, ("(its description)", found.description))
    if input_file is None:
        emit(document, lambda: _show_class(loaded, found, parts))
    else:
        emit(document, lambda: _show_row(row, found, parts))


def _show_row(row: int, found: Any, pulls: Sequence[tuple[Any, float]]) -> None:
    """Show what speaks for the class of a row, and for the next ones."""
    lead = f"score {found.score:.4g}, {found.margin:.4g} ahead of the next"
    say(f"row {row} is {found.label}: {lead}", "runner-ups")
    _show_bars([(one.label, one.weight) for one in found.runner_ups], "score")
    say(f"seen classes behind {found.label}")
    _show_bars(pulls, "pull")


def _show_class(model: Any, found: Any, sources: Sequence[tuple[Any, float]]) -> None:
    """Show what a class was made from, and the members of an ensemble that made it."""
    say(f"{found.label} ({'seen' if found.seen else 'added by its attributes'}) was made from")
    _show_bars(sources, "weight")
    if (table := getattr(model, "member_table", lambda: None)()) is not None:
        say(f"by {counted(len(table[1]), 'member')}")
        show_table(*table)


def _show_bars(parts: Sequence[tuple[Any, float]], name: str) -> None:
    """Print classes with a number each, and a bar as long as that."""
    unit = _BAR_WIDTH / (max((abs(weight) for _, weight in parts), default=0.0) or 1.0)
    rows = [
        (label, f"{weight:+.4f}", ("█" if weight >= 0 else "░") * round(unit * abs(weight)))
        for label, weight in parts
    ]
    show_table(("class", name, ""), rows)
