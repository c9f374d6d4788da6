"""`hgkt predict`: the best classes of rows of features, of a data set, or of many files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from hgkt._validation import UNKNOWN
from hgkt.cli._inputs import candidate_names, check_backbone, load_matching, load_model
from hgkt.cli._options import AnswerOptions, Device, EngineOptions, with_options
from hgkt.cli._output import (
    counted,
    emit,
    note,
    progress_bar,
    say,
    say_accuracy,
    show_table,
    write_frame,
)
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    from hgkt.estimators import GZSLClassifier
    from hgkt.evaluation.confidence import Answers

_SHOWN_ROWS = 20


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
    if out_file is not None and out_file.suffix not in (".csv", ".parquet"):
        raise DataError(
            f"--out must end in .csv or .parquet, or be a folder where --data is a Parquet file or "
            f"a folder of them; got {str(out_file)!r}"
        )
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
        document |= {"data": data, "split": split, **_accuracy(loaded, truth, labels)}
    extra = {} if truth is None else {"truth": truth}
    if out_file is not None:
        # Label, score, then label_2, score_2, …, and the truth.
        columns = {"row": np.arange(len(X)), **answers.columns(), **extra}
        write_frame(out_file, columns)
        document["out"] = out_file
    document["predictions"] = _records(answers, extra)
    emit(document, lambda: _render(document))


def _accuracy(
    model: GZSLClassifier, truth: NDArray[Any], predicted: NDArray[Any]
) -> dict[str, Any]:
    """Return the accuracy of the rows that got an answer: a rejected one is no mistake."""
    import pandas as pd

    unknown = sorted(set(truth.tolist()) - set(model.classes_.tolist()))
    if unknown:
        shown = ", ".join(unknown[:3]) + ("…" if len(unknown) > 3 else "")
        note(
            f"the model lacks {len(unknown)} of these classes ({shown}); their "
            "rows count as wrong: add them with `hgkt classes add`"
        )
    right = pd.Series(predicted == truth)[predicted != UNKNOWN]
    per_class = 100 * right.groupby(truth[predicted != UNKNOWN]).mean()
    accuracy = None if per_class.empty else float(per_class.mean())
    return {"accuracy": accuracy, "per_class": per_class.to_dict()}


def _records(answers: Answers, extra: dict[str, NDArray[Any]]) -> list[dict[str, Any]]:
    columns = {**answers.extra, **extra}
    records: list[dict[str, Any]] = []
    rows = zip(answers.labels.tolist(), answers.scores.tolist(), strict=True)
    for row, (names, values) in enumerate(rows):
        record = {
            "row": row,
            "label": None if names[0] == UNKNOWN else names[0],
            "score": values[0],
            **{name: column[row] for name, column in columns.items()},
        }
        if len(names) > 1:
            pairs = zip(names, values, strict=True)
            record["top"] = [{"label": name, "score": value} for name, value in pairs]
        records.append(record)
    return records


def _render(document: dict[str, Any]) -> None:
    rows = document["predictions"]
    if "out" in document:
        say(f"wrote {len(rows)} predictions to {document['out']}")
    else:
        names = {key: "next" if key == "top" else key for key in rows[0]}
        shown = rows[:_SHOWN_ROWS]
        show_table([*names.values()], ([_cell(row[key]) for key in names] for row in shown))
        if len(rows) > _SHOWN_ROWS:
            say(f"… {len(rows) - _SHOWN_ROWS} more rows; --out or --json has them all")
    measured = document.get("accuracy") is not None
    if "n_rejected" in document:
        count, total = document["n_rejected"], document["n_rows"]
        rest = f"; the accuracy is that of the other {total - count}" if count and measured else ""
        verb = "was" if count == 1 else "were"
        say(f"{count} of {counted(total, 'row')} {verb} rejected as unknown{rest}")
    if measured:
        say_accuracy(document)


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
    return rows and out.suffix not in (".csv", ".parquet")


def _predict_in_bulk(
    model: Path,
    data: Path,
    out: Path,
    asked: AnswerOptions,
    engine: EngineOptions,
    device: Device,
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
    facts = ("n_rows", "n_made", "n_there", "left_alone")
    document: dict[str, Any] = {name: getattr(report, name) for name in facts}
    document |= {"model": model, "data": data, "out": out, "among": asked.among}
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
    files = f"{document['n_files']} files{earlier}"
    say(f"{document['n_rows']} predictions in {files}: {document['out']}")
    if "accuracy" in document:
        say_accuracy(document)
