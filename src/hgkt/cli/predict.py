"""`hgkt predict`: the best classes of features, of images, of a data set, or of many files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from hgkt._plain import plain
from hgkt._validation import UNKNOWN
from hgkt.cli._inputs import (
    Input,
    candidate_names,
    check_backbone,
    load_matching,
    load_model,
    read_input,
)
from hgkt.cli._options import (
    AmongOption,
    CoverageOption,
    Device,
    DeviceOption,
    EngineOptions,
    InputOption,
    JsonOption,
    ModelOption,
    RejectOption,
    RootOption,
    TopOption,
    WeightsOption,
    with_options,
)
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
    model: ModelOption,
    input_file: InputOption = None,
    data: str | None = None,
    split: str = "test_unseen",
    top: TopOption = 1,
    among: AmongOption = "all",
    reject: RejectOption = None,
    coverage: CoverageOption = None,
    out_file: Annotated[Path | None, typer.Option("--out")] = None,
    root: RootOption = None,
    features: str | None = None,
    *,
    engine: EngineOptions,
    weights: WeightsOption = None,
    device: DeviceOption = Device.auto,
    as_json: JsonOption = False,
) -> None:
    """Predict the classes of features or images.

    With --data the accuracy is measured too. Parquet files of any number of rows go to a folder,
    one file each; what is there is not made again.

    Example: hgkt predict --model digits-model --data digits --split test_unseen --top 3

    Parameters
    ----------
    data : NAME
        Instead of --input: a data set, name or path; with --out FOLDER: Parquet files.
    split : NAME
        Of --data: train, test_seen or test_unseen.
    out_file : PATH
        Write the predictions: .csv, .parquet, or a folder for many Parquet files.
    features : NAME, default the model's
        Of --data: feature file.
    """
    from hgkt.evaluation.confidence import answer_rows, use_device

    if (input_file is None) == (data is None):
        raise DataError("say what to predict: either --input FILE or --data NAME")
    asked: dict[str, Any] = {"reject": reject, "coverage": coverage}
    if out_file is not None and _is_bulk(data, out_file):
        asked |= {"top_k": top, "device": str(device)}
        _predict_in_bulk(model, Path(str(data)), out_file, among, engine, asked, as_json)
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
    use_device(loaded, str(device))
    truth = None
    if input_file is not None:
        given = read_input(input_file, loaded, weights, str(device))
    else:
        given, truth = _split_rows(loaded, str(data), split, root, features)
    columns = loaded.candidates(candidate_names(loaded, among))
    answers = answer_rows(loaded, given.features, columns, top, **asked)
    labels = answers.labels[:, 0]
    extra = {"file": given.items, "truth": truth}
    extra = {name: column for name, column in extra.items() if column is not None}
    document: dict[str, Any] = {"model": model, "among": among, "n_rows": len(labels)}
    if reject is not None:
        document["n_rejected"] = int(np.sum(labels == UNKNOWN))
    if truth is not None:
        document |= {"data": data, "split": split, **_accuracy(loaded, truth, labels)}
    document |= given.report()
    if out_file is not None:
        _write(out_file, answers, extra)
        document["out"] = out_file
    document["predictions"] = _records(answers, extra)
    emit(document, as_json, lambda: _render(document))


def _split_rows(
    model: GZSLClassifier, name: str, split: str, root: Path | None, features: str | None
) -> tuple[Input, NDArray[Any]]:
    """Return the rows of a split and their classes."""
    dataset = load_matching(model, name, root, features)
    check_backbone(model, dataset.about, dataset.name)
    X, truth = dataset.rows(split)
    if not len(X):
        raise DataError(f"data set {dataset.name!r} has no rows in {split}; choose --split")
    return Input(X), truth


def _accuracy(
    model: GZSLClassifier, truth: NDArray[Any], predicted: NDArray[Any]
) -> dict[str, Any]:
    classes = set(model.classes_.tolist())
    unknown = [name for name in np.unique(truth).tolist() if name not in classes]
    if unknown:
        shown = ", ".join(unknown[:3]) + ("…" if len(unknown) > 3 else "")
        note(
            f"the model lacks {len(unknown)} of these classes ({shown}); their "
            "rows count as wrong: add them with `hgkt classes add`"
        )
    # A rejected row is no mistake: it got no answer, and is counted apart.
    answered = predicted != UNKNOWN
    truth, right = truth[answered], (truth == predicted)[answered]
    per_class = {str(name): 100 * float(right[truth == name].mean()) for name in np.unique(truth)}
    if not per_class:
        return {"accuracy": None, "per_class": {}}
    return {"accuracy": float(np.mean([*per_class.values()])), "per_class": per_class}


def _records(answers: Answers, extra: dict[str, Any]) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    columns = {**answers.extra, **extra}
    rows = zip(answers.labels.tolist(), answers.scores.tolist(), strict=True)
    for row, (names, values) in enumerate(rows):
        record: dict[str, Any] = {"row": row, "label": names[0], "score": values[0]}
        record |= {name: plain(column[row]) for name, column in columns.items()}
        if record["label"] == UNKNOWN:
            record["label"] = None
        if len(names) > 1:
            pairs = zip(names, values, strict=True)
            record["top"] = [{"label": name, "score": value} for name, value in pairs]
        records.append(record)
    return records


def _write(path: Path, answers: Answers, extra: dict[str, Any]) -> None:
    """Write one row per prediction: label, score, then label_2, score_2, …, file or truth."""
    import pandas as pd

    frame = pd.DataFrame({"row": np.arange(len(answers.labels)), **answers.columns(), **extra})
    write_frame(path, frame)


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
    if "n_rejected" in document:
        count, total = document["n_rejected"], document["n_rows"]
        rest = ""
        if count and document.get("accuracy") is not None:
            rest = f"; the accuracy is that of the other {total - count}"
        verb = "was" if count == 1 else "were"
        say(f"{count} of {counted(total, 'row')} {verb} rejected as unknown{rest}")
    if document.get("accuracy") is not None:
        say_accuracy(document)


def _cell(value: Any) -> str:
    """A score with four digits, of the best classes those after the first, text as it is."""
    if isinstance(value, list):
        return ", ".join(f"{item['label']} {item['score']:.4f}" for item in value[1:])
    if value is None:
        return "–"
    return f"{value:.4f}" if isinstance(value, float) else str(value)


# ---------------------------------------------------------------------- many Parquet files
def _is_bulk(data: str | None, out: Path) -> bool:
    """Say whether predictions of Parquet files are to be written to a folder."""
    place = Path(data or "")
    rows = data is not None and (place.is_dir() or place.suffix == ".parquet")
    return rows and out.suffix not in (".csv", ".parquet")


def _predict_in_bulk(
    model: Path,
    data: Path,
    out: Path,
    among: str,
    engine: EngineOptions,
    asked: dict[str, Any],
    as_json: bool,
) -> None:
    """Predict all rows of Parquet files, and say what was done."""
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
            among=candidate_names(loaded, among),
            n_workers=engine.workers,
            progress=bar,
            **engine.engine_and_address(),
            **asked,
        )
    document: dict[str, Any] = {
        **{"model": model, "data": data, "out": out, "among": among},
        **{"n_rows": report.n_rows, "n_files": report.n_made + report.n_there},
        **{"n_made": report.n_made, "n_there": report.n_there},
        "left_alone": list(report.left_alone),
    }
    if per_class := report.per_class:
        document |= {"accuracy": float(np.mean([*per_class.values()])), "per_class": per_class}
    if report.left_alone:
        note(
            f"{out} also has {len(report.left_alone)} Parquet files that this command did not "
            f"write ({report.left_alone[0]}, …); they are left alone"
        )
    emit(document, as_json, lambda: _render_bulk(document))


def _render_bulk(document: dict[str, Any]) -> None:
    earlier = f" ({document['n_there']} of them were there)" if document["n_there"] else ""
    files = f"{document['n_files']} files{earlier}"
    say(f"{document['n_rows']} predictions in {files}: {document['out']}")
    if "accuracy" in document:
        say_accuracy(document)
