"""`hgkt demo`: learn eight digits, then recognise one that was never shown."""

from __future__ import annotations

import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table

from hgkt._files import check_writable
from hgkt._typing import Progress
from hgkt.cli._common import JsonOption, SeedOption, emit, note, out, progress_bar, say
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    from hgkt.calibration.curve import SeenUnseenCurve
    from hgkt.data import GZSLDataset
    from hgkt.estimators import ClassExplanation
    from hgkt.evaluation import GZSLMetrics

_HIDDEN = "six"
_N_IMAGES = 10
_FIGURE_SUFFIXES = (".png", ".pdf", ".svg", ".jpg")


@dataclass(frozen=True)
class DemoRun:
    """One model on the digits: figures in percent, and its accuracies at every calibration."""

    title: str
    metrics: GZSLMetrics
    curve: SeenUnseenCurve
    calibration: float
    seconds: float


@dataclass(frozen=True)
class HiddenDigit:
    """Ten images of a digit that has no training image, before and after its class was added."""

    name: str
    images: NDArray[Any]
    before: list[str]
    after: list[str]
    accuracy: float
    n_images: int
    add_milliseconds: float
    explanation: ClassExplanation


def demo_command(
    out_file: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="Figure to write: .png, .pdf or .svg.")
    ] = Path("hgkt-demo.png"),
    page: Annotated[
        bool, typer.Option("--page", help="Serve the page instead, and add digits by hand.")
    ] = False,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Of the page; 0 takes a free one.")
    ] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Whether to open the page.")
    ] = True,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Learn eight handwritten digits, add one by its attributes, and draw what happened.

    Example: hgkt demo --out hgkt-demo.png
    """
    from hgkt.cli._demo_show import check_page, draw_figure, serve_page
    from hgkt.data import load_dataset

    start = time.perf_counter()
    if page:
        check_page()
    else:
        _check_figure(out_file)
    dataset = load_dataset("digits")
    with progress_bar() as progress:
        model, default = _default_run(dataset, seed, progress)
        paper = None if page else _paper_run(dataset, seed, progress)
    if page:
        serve_page(dataset, model, port, browser, as_json)
        return
    hidden = _hidden_digit(model, dataset, seed)
    runs = [default, *([paper] if paper else [])]
    document = {
        "data": dataset.summary(),
        "results": [
            {"model": run.title, **run.metrics.to_dict()}
            | {"calibration": run.calibration, "seconds": run.seconds}
            for run in runs
        ],
        "hidden": {
            "class": hidden.name,
            "before": hidden.before,
            "after": hidden.after,
            "n_right": hidden.after.count(hidden.name),
            "accuracy": hidden.accuracy,
            "add_milliseconds": hidden.add_milliseconds,
            "sources": hidden.explanation.to_dict()["sources"],
        },
        "figure": out_file if find_spec("matplotlib") else None,
        "seed": seed,
        "seconds": time.perf_counter() - start,
    }
    emit(document, as_json, lambda: _render(dataset, runs, hidden, document))
    # Last, so that the results are there whatever becomes of the file.
    if document["figure"] is None:
        note("no figure was drawn: that needs pip install 'hgkt[report]'")
        return
    draw_figure(runs, hidden, out_file)
    note(f"{out_file} written")


def _check_figure(path: Path) -> None:
    """Refuse what could not be written before anything is computed."""
    if path.suffix.lower() not in _FIGURE_SUFFIXES:
        raise DataError(f"--out must end in {', '.join(_FIGURE_SUFFIXES)}; got {str(path)!r}")
    if path.is_dir():
        raise DataError(f"cannot write {path}: it is a folder")
    check_writable(path.parent)


def _default_run(dataset: GZSLDataset, seed: int, progress: Progress) -> tuple[Any, DemoRun]:
    """Choose on class folds of the eight seen digits, fit, and test."""
    from hgkt.estimators import HGKTClassifier

    return _run("closed form", HGKTClassifier(device="cpu"), dataset, True, seed, progress)


def _paper_run(dataset: GZSLDataset, seed: int, progress: Progress) -> DemoRun | None:
    """Train the paper's network; without torch say what it needs."""
    if find_spec("torch") is None:
        note("the paper's network is left out: it needs pip install 'hgkt[network]'")
        return None
    import torch

    from hgkt.estimators import HGKTNetworkClassifier

    model = HGKTNetworkClassifier.from_preset("exact", random_state=seed, device="cpu")
    # Sixteen rows per step: waiting for a second thread costs more than it brings.
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _run("network", model, dataset, False, seed, progress)[1]
    finally:
        torch.set_num_threads(n_threads)


def _run(
    title: str, estimator: Any, dataset: GZSLDataset, select: bool, seed: int, progress: Progress
) -> tuple[Any, DemoRun]:
    """Evaluate a model, and take the unseen digits, which the test needs, out of it again."""
    from hgkt.evaluation import evaluate

    tested: list[Any] = []
    record = evaluate(
        estimator,
        dataset,
        select=select,
        random_state=seed,
        progress=progress,
        on_test=lambda *found: tested.extend(found),
    )
    model, curve = tested
    model.remove_classes(dataset.names(dataset.unseen_classes))
    seconds = record.timings["select"] + record.timings["fit"]
    return model, DemoRun(title, record.metrics, curve, record.calibration, seconds)


def _hidden_digit(model: Any, dataset: GZSLDataset, seed: int) -> HiddenDigit:
    """Predict images of one hidden digit before and after its class is added."""
    code = dataset.class_names.index(_HIDDEN)
    rows = np.flatnonzero(dataset.labels == code)
    X = dataset.features[rows]
    shown = np.random.default_rng(seed).choice(len(rows), _N_IMAGES, replace=False)
    before = model.predict(X[shown]).tolist()
    start = time.perf_counter()
    model.add_classes(dataset.attributes_of([code]))
    milliseconds = 1000 * (time.perf_counter() - start)
    after = model.predict(X)
    return HiddenDigit(
        name=_HIDDEN,
        images=X[shown].reshape(-1, 8, 8),
        before=before,
        after=after[shown].tolist(),
        accuracy=100 * float(np.mean(after == _HIDDEN)),
        n_images=len(rows),
        add_milliseconds=milliseconds,
        explanation=model.explain_class(_HIDDEN),
    )


def _render(
    dataset: GZSLDataset, runs: list[DemoRun], hidden: HiddenDigit, document: dict[str, Any]
) -> None:
    unseen = ", ".join(dataset.names(dataset.unseen_classes))
    say(
        f"{len(dataset.train)} images of {len(dataset.seen_classes)} digits to learn from; "
        f"never shown: {unseen}"
    )
    table = Table(box=SIMPLE, pad_edge=False, caption="%, mean over classes")
    table.add_column("")
    for name in ("ZSL", "ts", "tr", "H", "AUSUC", "seconds"):
        table.add_column(name, justify="right")
    for run in runs:
        m = run.metrics
        values = (m.zsl, m.ts, m.tr, m.H, m.ausuc, run.seconds)
        table.add_row(run.title, *(f"{value:.1f}" for value in values))
    out.print(table)
    title = f"ten images of a {hidden.name}"
    columns = ("image", "before", f"after adding {hidden.name!r}")
    answers = Table(*columns, box=SIMPLE, pad_edge=False, title=title)
    for number, (old, new) in enumerate(zip(hidden.before, hidden.after, strict=True), start=1):
        style = "green" if new == hidden.name else "red"
        answers.add_row(str(number), f"[red]{escape(old)}[/red]", f"[{style}]{escape(new)}[/]")
    out.print(answers)
    made = ", ".join(f"{s.label} {s.weight:+.2f}" for s in hidden.explanation.sources[:5])
    say(
        f"{hidden.name} was added by its attributes in {hidden.add_milliseconds:.1f} ms; of all "
        f"{hidden.n_images} images of it {hidden.accuracy:.0f} % are right now",
        f"it was made from {made}",
        "plain ridge regression is as good on digits this small (hgkt evaluate --method ridge "
        "--select); docs/methods.md has every method on real data",
        f"{document['seconds']:.1f} s in all",
    )
