"""`hgkt predict`: the best classes of features, of images, or of a split of a data set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from hgkt._files import atomic_file, escape_frame
from hgkt._plain import plain
from hgkt._validation import UNKNOWN
from hgkt.cli._bulk import (
    AddressOption,
    Asked,
    EngineOption,
    Workers,
    WorkersOption,
    is_bulk,
    predict_in_bulk,
    say_accuracy,
)
from hgkt.cli._common import (
    Device,
    DeviceOption,
    JsonOption,
    RootOption,
    emit,
    note,
    say,
    show_table,
)
from hgkt.cli._confidence import CoverageOption, RejectOption
from hgkt.cli._inputs import Input, InputOption, read_input, show_unreadable
from hgkt.cli._model import AmongOption, ModelOption, candidates, check_backbone, load_matching
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    from hgkt.estimators import GZSLClassifier

_SHOWN_ROWS = 20


def predict_command(
    model: ModelOption,
    input_file: InputOption = None,
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            help="Instead of --input: a data set, name or path; with --out FOLDER: Parquet files.",
        ),
    ] = None,
    split: Annotated[
        str, typer.Option("--split", help="Of --data: train, test_seen or test_unseen.")
    ] = "test_unseen",
    root: RootOption = None,
    features: Annotated[
        str | None,
        typer.Option("--features", help="Of --data: feature file.", show_default="the model's"),
    ] = None,
    among: AmongOption = "all",
    top_k: Annotated[int, typer.Option("--top-k", min=1, help="How many classes a row.")] = 1,
    reject: RejectOption = None,
    coverage: CoverageOption = None,
    out_file: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="PATH",
            help="Write the predictions: .csv, .parquet, or a folder for many Parquet files.",
        ),
    ] = None,
    engine: EngineOption = None,
    workers: WorkersOption = None,
    address: AddressOption = None,
    weights: Annotated[
        Path | None,
        typer.Option("--weights", help="Of images: the backbone's weights, if they were moved."),
    ] = None,
    device: DeviceOption = Device.auto,
    as_json: JsonOption = False,
) -> None:
    """Predict the classes of features or images; with --data the accuracy is measured too.

    Parquet files of any number of rows go to a folder, one file each; what is there is not made
    again.

    Example: hgkt predict --model digits-model --data digits --split test_unseen --top-k 3
    """
    from hgkt.estimators import load_model
    from hgkt.evaluation.confidence import answer_rows, use_device

    if (input_file is None) == (data is None):
        raise DataError("say what to predict: either --input FILE or --data NAME")
    where = Workers(engine, workers, address)
    if is_bulk(data, out_file, where):
        asked = Asked(model, among, top_k, reject, coverage, str(device))
        predict_in_bulk(asked, Path(str(data)), out_file, where, as_json)
        return
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
        show_unreadable(given)
    else:
        dataset = load_matching(loaded, str(data), root, features)
        check_backbone(loaded, dataset.about, dataset.name)
        X, truth = dataset.rows(split)
        if not len(X):
            raise DataError(f"data set {dataset.name!r} has no rows in {split}; choose --split")
        given = Input(X)
    columns = candidates(loaded, among)
    answers = answer_rows(loaded, given.features, columns, top_k, reject, coverage)
    labels, scores = answers.labels, answers.scores
    extra: dict[str, Any] = dict(answers.extra)
    extra |= {"file": given.files, "truth": truth}
    extra = {name: column for name, column in extra.items() if column is not None}
    result: dict[str, Any] = {"model": model, "among": among, "n_rows": len(labels)}
    if truth is not None:
        result |= {"data": data, "split": split, **_accuracy(loaded, truth, labels[:, 0])}
    if given.files is not None:
        unreadable = [{"file": file, "reason": reason} for file, reason in given.unreadable]
        result |= {"n_unreadable": len(unreadable), "unreadable": unreadable}
    if out_file is not None:
        _write(out_file, labels, scores, extra)
        result["out"] = out_file
    document = result | {"predictions": _records(labels, scores, extra)}
    emit(document, as_json, lambda: _render(document))


def _accuracy(
    model: GZSLClassifier, truth: NDArray[Any], predicted: NDArray[Any]
) -> dict[str, Any]:
    known = set(model.classes_.tolist())
    unknown = [name for name in np.unique(truth).tolist() if name not in known]
    if unknown:
        shown = ", ".join(unknown[:3]) + ("…" if len(unknown) > 3 else "")
        note(
            f"the model lacks {len(unknown)} of these classes ({shown}); their "
            "rows count as wrong: add them with `hgkt classes add`"
        )
    right = truth == predicted
    per_class = {str(name): 100 * float(right[truth == name].mean()) for name in np.unique(truth)}
    return {"accuracy": float(np.mean([*per_class.values()])), "per_class": per_class}


def _records(
    labels: NDArray[Any], scores: NDArray[np.float64], extra: dict[str, Any]
) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    for row, (names, values) in enumerate(zip(labels.tolist(), scores.tolist(), strict=True)):
        record: dict[str, Any] = {"row": row, "label": names[0], "score": values[0]}
        record |= {name: plain(column[row]) for name, column in extra.items()}
        if record["label"] == UNKNOWN:
            record["label"] = None
        if len(names) > 1:
            pairs = zip(names, values, strict=True)
            record["top"] = [{"label": name, "score": value} for name, value in pairs]
        records.append(record)
    return records


def _write(
    path: Path, labels: NDArray[Any], scores: NDArray[np.float64], extra: dict[str, Any]
) -> None:
    """Write one row per prediction: label, score, then label_2, score_2, …, file or truth."""
    import pandas as pd

    columns: dict[str, Any] = {"row": np.arange(len(labels))}
    for rank in range(labels.shape[1]):
        suffix = f"_{rank + 1}" if rank else ""
        columns |= {f"label{suffix}": labels[:, rank], f"score{suffix}": scores[:, rank]}
    frame = pd.DataFrame(columns | extra)
    with atomic_file(path) as scratch:
        if path.suffix == ".csv":
            escape_frame(frame).to_csv(scratch, index=False)
        else:
            frame.to_parquet(scratch, index=False)


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
    if "accuracy" in document:
        say_accuracy(document)


def _cell(value: Any) -> str:
    """A score with four digits, of the best classes those after the first, text as it is."""
    if isinstance(value, list):
        return ", ".join(f"{item['label']} {item['score']:.4f}" for item in value[1:])
    if value is None:
        return "–"
    return f"{value:.4f}" if isinstance(value, float) else str(value)
