"""`hgkt train`: fit a method on the train split of a data set and save the model."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hgkt._plain import short
from hgkt._typing import Progress
from hgkt.cli._common import JsonOption, emit, note, progress_bar, say
from hgkt.cli._model import made_with
from hgkt.cli.methods import FitOptions, with_fit_options
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    from hgkt.data import GZSLDataset
    from hgkt.estimators import GZSLClassifier


@with_fit_options
def train_command(
    out_path: Annotated[Path, typer.Option("--out", metavar="MODEL", help="Folder to write.")],
    options: FitOptions,
    with_unseen: Annotated[
        bool, typer.Option("--with-unseen", help="Add the data set's unseen classes to the model.")
    ] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint",
            help="Network: file to resume from and to keep.",
            show_default="MODEL.checkpoint, deleted once the model is saved",
        ),
    ] = None,
    tensorboard: Annotated[
        Path | None, typer.Option("--tensorboard", help="Network: folder for TensorBoard.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Fit a method on the train split and save the model folder.

    Training of the network can be interrupted with Ctrl-C; the same command goes on from there.

    Example: hgkt train --data digits --select --with-unseen --out digits-model
    """
    from hgkt.estimators.methods import METHODS
    from hgkt.estimators.model_folder import check_model_place

    start = time.perf_counter()
    files = _files(options.estimator(), out_path, checkpoint, tensorboard)
    check_model_place(out_path)
    dataset = options.load()
    estimator: Any = options.estimator(dataset)
    if files:
        estimator.write_to(**files)
    path = files.get("checkpoint")
    resumed = path is not None and path.exists()
    if resumed:
        note(f"resuming from {path}")
    try:
        with progress_bar() as bar, _interrupt_between_steps(bar) as progress:
            model, found = _fit(estimator, dataset, options, progress)
    except KeyboardInterrupt:
        kept = f"{path} holds the state: run the same command again to resume"
        note(f"interrupted; {kept if path and path.exists() else 'nothing was saved'}")
        raise typer.Exit(130) from None
    if with_unseen:
        model.add_classes(dataset.attributes_of(dataset.unseen_classes))
    model.save(out_path, **made_with(dataset), selected=options.select, **found)
    if path is not None and checkpoint is None:
        path.unlink(missing_ok=True)
    document = {
        "model": out_path,
        "data": dataset.name,
        "n_instances": len(dataset.train),
        "n_seen_classes": len(model.seen_classes_),
        "n_added_classes": len(model.unseen_classes_),
        **found,
        "parameters": model.get_params(deep=False),
        "method": METHODS.name_of(type(model)) or options.method,
        "preset": options.preset,
        "seed": options.seed,
        "resumed": resumed,
        "seconds": time.perf_counter() - start,
    }
    emit(document, as_json, lambda: _render(document))


def _files(
    estimator: GZSLClassifier, out_path: Path, checkpoint: Path | None, tensorboard: Path | None
) -> dict[str, Path | None]:
    """Return where training writes, for methods that train in steps."""
    if hasattr(estimator, "write_to"):
        beside = out_path.resolve().with_name(f"{out_path.resolve().name}.checkpoint")
        return {"checkpoint": checkpoint or beside, "tensorboard": tensorboard}
    for name, value in (("checkpoint", checkpoint), ("tensorboard", tensorboard)):
        if value is not None:
            raise DataError(
                f"--{name} is for methods that train a network in steps; leave it out, or give "
                "--preset paper"
            )
    return {}


def _fit(
    estimator: GZSLClassifier, dataset: GZSLDataset, options: FitOptions, progress: Progress
) -> tuple[Any, dict[str, Any]]:
    """Fit on the train split, through a search on its class folds where something is chosen.

    Returns
    -------
    model : GZSLClassifier
        Fitted.
    found : dict
        ``chosen``: values by parameter; ``validation``: on what they were chosen, or None.
    """
    from hgkt.evaluation import ClassFoldSearch
    from hgkt.evaluation.selection import wants_calibration

    X, y = dataset.rows("train")
    attributes = dataset.attributes_of(dataset.seen_classes)
    calibrate = wants_calibration(estimator, options.calibration)
    if not options.select and not calibrate:
        estimator.on_progress(progress).fit(X, y, class_attributes=attributes)
        return estimator.on_progress(None), {"chosen": {}, "validation": None}
    search = ClassFoldSearch(
        estimator,
        stages=None if options.select else [],
        n_folds=options.folds,
        calibrate=calibrate,
        random_state=options.seed,
        progress=progress,
    ).fit(X, y, attributes, folds=dataset.class_folds() or None)
    gamma = {"calibration": search.calibration_.to_dict()} if search.calibrated_ else {}
    validation = {
        "metric": search.metric_,
        "score": search.best_score_,
        "folds": "published" if dataset.folds else "random",
        "n_folds": len(search.folds_),
        "n_settings": len(search.cv_results_),
    }
    chosen = {**search.best_params_, **gamma}
    return search.best_estimator_, {"chosen": chosen, "validation": validation}


@contextmanager
def _interrupt_between_steps(progress: Progress) -> Iterator[Progress]:
    """Yield `progress`, which also raises a KeyboardInterrupt that came while steps were taken.

    Between two reports of the stage "train" the first Ctrl-C waits for the next report, where
    weights and moments belong together and are saved; a second one does not wait. At any other
    time Ctrl-C interrupts at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield progress  # only the main thread can handle signals
        return
    training = pending = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal pending
        if pending or not training:
            raise KeyboardInterrupt
        pending = True

    def report(stage: str, done: int, total: int, values: dict[str, float]) -> None:
        nonlocal training
        progress(stage, done, total, values)
        training = stage == "train" and done < total
        if pending:
            raise KeyboardInterrupt

    previous = signal.signal(signal.SIGINT, handle)
    try:
        yield report
    finally:
        signal.signal(signal.SIGINT, previous)


def _render(document: dict[str, Any]) -> None:
    added, validation = document["n_added_classes"], document["validation"]
    say(
        f"{document['method']} on {document['data']}: {document['n_instances']} instances "
        f"of {document['n_seen_classes']} classes"
        + (f", {added} classes added" if added else "")
        + f", {document['seconds']:.1f} s"
    )
    if validation is not None:
        chosen = ", ".join(f"{name}={short(value)}" for name, value in document["chosen"].items())
        say(
            f"chosen on {validation['n_folds']} {validation['folds']} class folds "
            f"({validation['metric']} {validation['score']:.1f}): {chosen}"
        )
    say(f"saved to {document['model']}")
