"""`hgkt train`: fit a method on the train split of a data set and save the model."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from hgkt._typing import Progress
from hgkt.cli._common import (
    AttributesOption,
    DataOption,
    Device,
    DeviceOption,
    FeaturesOption,
    JsonOption,
    ParamOption,
    RootOption,
    SeedOption,
    emit,
    log,
    out,
    parse_params,
    progress_bar,
)
from hgkt.cli._estimator import (
    CalibrateOption,
    FoldsOption,
    MethodOption,
    PresetOption,
    SelectOption,
    estimator_builder,
)
from hgkt.cli._interrupt import interrupt_between_steps
from hgkt.exceptions import DataError, ModelFolderError

if TYPE_CHECKING:
    from hgkt.data import GZSLDataset
    from hgkt.estimators import GZSLClassifier

# What features and attributes were made with: needed wherever new ones are made for the model.
_MADE_WITH = (
    "backbone",
    "encoder",
    "attribute_blocks",
    "attribute_kinds",
    "attribute_names",
    "pixels",
)


@dataclass(frozen=True)
class Fitted:
    """A fitted model and what selection found."""

    model: Any
    selected: dict[str, Any]
    validation: dict[str, Any] | None


def train_command(
    out_path: Annotated[Path, typer.Option("--out", metavar="MODEL", help="Folder to write.")],
    data: DataOption = "digits",
    root: RootOption = None,
    features: FeaturesOption = "res101",
    attributes: AttributesOption = "att",
    method: MethodOption = "hgkt",
    preset: PresetOption = None,
    param: ParamOption = None,
    select: SelectOption = False,
    folds: FoldsOption = None,
    calibrate: CalibrateOption = None,
    with_unseen: Annotated[
        bool, typer.Option("--with-unseen", help="Add the data set's unseen classes to the model.")
    ] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint",
            help="Network: file to resume from and to keep. [default: MODEL.checkpoint, "
            "deleted once the model is saved]",
            show_default=False,
        ),
    ] = None,
    tensorboard: Annotated[
        Path | None, typer.Option("--tensorboard", help="Network: folder for TensorBoard.")
    ] = None,
    seed: SeedOption = 0,
    device: DeviceOption = Device.auto,
    as_json: JsonOption = False,
) -> None:
    """Fit a method on the train split and save the model folder.

    Training of the network can be interrupted with Ctrl-C; the same command goes on from there.

    Example: hgkt train --data digits --select --with-unseen --out digits-model
    """
    from hgkt.data import load_dataset

    start = time.perf_counter()
    build = estimator_builder(method, preset, parse_params(param), str(device))
    files = _files(build(seed), out_path, checkpoint, tensorboard)
    _check_out(out_path)
    dataset = load_dataset(data, root=root, features=features, attributes=attributes)
    estimator: Any = build(seed, dataset)
    if files:
        estimator.write_to(**files)
    path = Path(files["checkpoint"]) if files.get("checkpoint") else None
    resumed = path is not None and path.exists()
    if resumed:
        log.print(f"resuming from {path}", soft_wrap=True, markup=False)
    try:
        with progress_bar() as bar, interrupt_between_steps(bar) as progress:
            fitted = _fit(estimator, dataset, select, folds, calibrate, seed, progress)
    except KeyboardInterrupt:
        log.print(_interrupted(path), soft_wrap=True, markup=False)
        raise typer.Exit(130) from None
    model = fitted.model
    if with_unseen:
        model.add_classes(dataset.attributes_of(dataset.unseen_classes))
    model.save(out_path, **_about(dataset, fitted, select))
    if checkpoint is None and path == _default_checkpoint(out_path):
        with suppress(FileNotFoundError):
            path.unlink()
    document = _document(out_path, dataset, fitted) | {
        "method": method,
        "preset": preset,
        "seed": seed,
        "resumed": resumed,
        "seconds": time.perf_counter() - start,
    }
    emit(document, as_json, lambda: _render(document))


def _files(
    estimator: GZSLClassifier, out_path: Path, checkpoint: Path | None, tensorboard: Path | None
) -> dict[str, str]:
    """Return where training is to write, for methods that train in steps."""
    given = {"checkpoint": checkpoint, "tensorboard": tensorboard}
    if not hasattr(estimator, "write_to"):
        for name, value in given.items():
            if value is not None:
                raise DataError(
                    f"--{name} is for methods that train a network in steps; leave it out, or "
                    "give --preset paper"
                )
    elif checkpoint is None:
        given["checkpoint"] = _default_checkpoint(out_path)
    return {name: str(value) for name, value in given.items() if value is not None}


def _default_checkpoint(out_path: Path) -> Path:
    return out_path.with_name(f"{out_path.name}.checkpoint")


def _check_out(path: Path) -> None:
    """Refuse a place that cannot be written before hours are spent on training."""
    from hgkt.estimators.model_folder import CONFIG

    if path.is_file() or (path.is_dir() and any(path.iterdir()) and not (path / CONFIG).is_file()):
        raise ModelFolderError(
            f"{path} exists and is no model folder; it is left alone, choose another path"
        )
    parent = path.absolute().parent
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        reason = "may not be written" if parent.is_dir() else "is no folder"
        raise ModelFolderError(f"cannot write the model to {path}: {parent} {reason}")


def _fit(
    estimator: GZSLClassifier,
    dataset: GZSLDataset,
    select: bool,
    n_folds: int | None,
    calibrate: bool | None,
    seed: int,
    progress: Progress,
) -> Fitted:
    """Fit on the train split, through a search on its class folds where something is chosen."""
    from hgkt.evaluation import ClassFoldSearch
    from hgkt.evaluation.selection import wants_calibration

    X, y = dataset.rows("train")
    attributes = dataset.attributes_of(dataset.seen_classes)
    wanted = wants_calibration(estimator, "auto" if calibrate is None else calibrate)
    if not select and not wanted:
        estimator.on_progress(progress).fit(X, y, class_attributes=attributes)
        return Fitted(estimator.on_progress(None), {}, None)
    search = ClassFoldSearch(
        estimator,
        stages=None if select else [],
        n_folds=n_folds,
        calibrate=wanted,
        random_state=seed,
        progress=progress,
    ).fit(X, y, attributes, folds=dataset.class_folds() or None)
    chosen = dict(search.best_params_)
    if search.calibrated_:
        chosen["calibration"] = search.calibration_
    validation = {
        "metric": search.metric_,
        "score": search.best_score_,
        "folds": "published" if dataset.folds else "random",
        "n_folds": len(search.folds_),
        "n_settings": len(search.cv_results_),
    }
    return Fitted(search.best_estimator_, chosen, validation)


def _interrupted(checkpoint: Path | None) -> str:
    if checkpoint is None or not checkpoint.exists():
        return "interrupted; nothing was saved"
    return f"interrupted; {checkpoint} holds the state: run the same command again to resume"


def _about(dataset: GZSLDataset, fitted: Fitted, select: bool) -> dict[str, Any]:
    """Say what the model was made with; it goes to the config of the model folder."""
    return {
        "data": dataset.name,
        "fingerprint": dataset.fingerprint(),
        "features": dataset.about.get("features"),
        "attributes": dataset.about.get("attributes"),
        "layout": dataset.about.get("layout"),
        "attribute_names": None if dataset.attribute_names is None else [*dataset.attribute_names],
        **{key: dataset.about[key] for key in _MADE_WITH if key in dataset.about},
        "selected": select,
        "chosen": fitted.selected,
        "validation": fitted.validation,
    }


def _document(path: Path, dataset: GZSLDataset, fitted: Fitted) -> dict[str, Any]:
    return {
        "model": path,
        "data": dataset.name,
        "n_instances": len(dataset.train),
        "n_seen_classes": len(fitted.model.seen_classes_),
        "n_added_classes": len(fitted.model.unseen_classes_),
        "chosen": fitted.selected,
        "validation": fitted.validation,
        "parameters": fitted.model.get_params(deep=False),
    }


def _render(document: dict[str, Any]) -> None:
    added = document["n_added_classes"]
    lines = [
        f"{document['method']} on {document['data']}: {document['n_instances']} instances "
        f"of {document['n_seen_classes']} classes"
        + (f", {added} classes added" if added else "")
        + f", {document['seconds']:.1f} s"
    ]
    validation = document["validation"]
    if validation is not None:
        chosen = ", ".join(
            f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value!r}"
            for name, value in document["chosen"].items()
        )
        lines.append(
            f"chosen on {validation['n_folds']} {validation['folds']} class folds "
            f"({validation['metric']} {validation['score']:.1f}): {chosen}"
        )
    lines.append(f"saved to {document['model']}")
    for line in lines:
        out.print(escape(line), soft_wrap=True)
