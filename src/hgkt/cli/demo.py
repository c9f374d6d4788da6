"""`hgkt demo`: learn eight digits, then recognise one that was never shown."""

from __future__ import annotations

import socket
import tempfile
import threading
import time
import webbrowser
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

from hgkt._files import atomic_file, check_writable
from hgkt._typing import Progress
from hgkt._validation import import_extra
from hgkt.cli._options import JsonOption, SeedOption, with_options
from hgkt.cli._output import emit, figures_table, note, out, progress_bar, say
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    from hgkt.data import GZSLDataset
    from hgkt.estimators import ClassExplanation
    from hgkt.evaluation import GZSLMetrics, SeenUnseenCurve

_HIDDEN = "six"
_N_IMAGES = 10
_HOST = "127.0.0.1"
_PARTING_SECONDS = 2  # how long requests under way may take when the demo is stopped
_TRY = (
    "light the segments of a six (a c d e f g), name it, press Add class: it appears on the map",
    "then draw a six, or pick one of the samples; a two is a b d e g",
    "Ctrl-C ends the demo; nothing is kept",
)
_BLUE, _ORANGE, _GREEN, _RED = "#2563eb", "#d97706", "#15803d", "#b91c1c"
_GREY, _PALE, _BLACK = "#6b7280", "#9ca3af", "#111827"
_STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": _GREY,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "xtick.color": _GREY,
    "ytick.color": _GREY,
}
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


@with_options
def demo_command(
    out_file: Annotated[Path, typer.Option("--out")] = Path("hgkt-demo.png"),
    page: bool = False,
    port: Annotated[int, typer.Option(min=0, max=65535)] = 0,
    browser: bool = True,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Learn eight digits, add one by its attributes, and draw it all.

    Example: hgkt demo --out hgkt-demo.png

    Parameters
    ----------
    out_file : FILE
        Figure to write: .png, .pdf or .svg.
    page
        Serve the page instead, and add digits by hand.
    port
        Of the page; 0 takes a free one.
    browser
        Whether to open the page.
    """
    from hgkt.data import load_dataset

    start = time.perf_counter()
    if page:
        _check_page()
    else:
        _check_figure(out_file)
    dataset = load_dataset("digits")
    with progress_bar() as progress:
        model, default = _default_run(dataset, seed, progress)
        paper = None if page else _paper_run(dataset, seed, progress)
    if page:
        _serve_page(dataset, model, port, browser, as_json)
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
    _draw_figure(runs, hidden, out_file)
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
    table = figures_table("%, mean over classes", ("ZSL", "ts", "tr", "H", "AUSUC", "seconds"))
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


# ---------------------------------------------------------------------- the figure
def _draw_figure(runs: list[DemoRun], hidden: HiddenDigit, path: Path) -> None:
    """Draw the figure and write it.

    Parameters
    ----------
    runs : list of DemoRun
        The models whose curves are compared.
    hidden : HiddenDigit
        The digit that was added.
    path : Path
        File to write; its suffix says the format.
    """
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        # A Figure of its own needs no display and leaves pyplot's state alone.
        figure: Any = Figure(figsize=(11, 6.5), layout="constrained", facecolor="white")
        top, bottom = figure.subfigures(2, 1, height_ratios=(0.84, 2))
        _draw_images(top, hidden)
        left, right = bottom.subplots(1, 2, width_ratios=(1.15, 1))
        _draw_curves(left, runs)
        _draw_weights(right, hidden)
        with atomic_file(path) as scratch:
            figure.savefig(scratch, dpi=150, format=path.suffix[1:].lower())


def _draw_images(figure: Any, hidden: HiddenDigit) -> None:
    title = (
        f"A digit without training images: what the model says before, and after “{hidden.name}” "
        "was added by its attributes"
    )
    figure.suptitle(title, x=0.008, ha="left", fontsize=11, fontweight="bold")
    axes = figure.subplots(1, len(hidden.images), gridspec_kw={"wspace": 0.12})
    for position, axis in enumerate(axes):
        axis.imshow(hidden.images[position], cmap="gray_r", interpolation="nearest")
        axis.set(xticks=[], yticks=[], anchor="N")
        old, new = hidden.before[position], hidden.after[position]
        color = _GREEN if new == hidden.name else _RED
        for spine in axis.spines.values():
            spine.set(visible=True, color=color, linewidth=1.6)
        below: Any = {"ha": "center", "va": "top", "transform": axis.transAxes}
        axis.text(0.5, -0.10, old, color=_GREY, **below)
        axis.text(0.5, -0.34, f"→ {new}", color=color, fontweight="bold", **below)


def _draw_curves(axis: Any, runs: list[DemoRun]) -> None:
    for run, color in zip(runs, (_BLUE, _ORANGE), strict=True):
        unseen, seen, metrics = 100 * run.curve.unseen, 100 * run.curve.seen, run.metrics
        label = f"{run.title}: AUSUC {metrics.ausuc:.1f}"
        axis.plot(unseen, seen, color=color, linewidth=2, label=label)
        axis.fill_between(unseen, seen, color=color, alpha=0.10, linewidth=0)
        axis.plot(metrics.ts, metrics.tr, "o", color=color, markersize=8, markeredgecolor="white")
        # Inside of the picture: left of a point that lies right of the middle.
        offset, ha, va = (-1, "right", "top") if metrics.ts > 50 else (1, "left", "bottom")
        text = f"H {metrics.H:.1f}" + ("" if run.calibration else ", not calibrated")
        at: Any = {"ha": ha, "va": va, "color": color, "fontweight": "bold"}
        axis.text(metrics.ts + 2 * offset, metrics.tr + offset, text, **at)
    axis.set(xlim=(0, 100.5), ylim=(0, 100.5), title="Seen–unseen curve over every calibration")
    axis.set(xlabel="accuracy on unseen digits, %", ylabel="accuracy on seen digits, %")
    axis.legend(frameon=False, loc="lower left")


def _draw_weights(axis: Any, hidden: HiddenDigit) -> None:
    sources = hidden.explanation.sources[::-1]
    weights = np.array([source.weight for source in sources])
    names = [str(source.label) for source in sources]
    colors = [_BLUE if weight >= 0 else _PALE for weight in weights]
    axis.barh(names, weights, color=colors, height=0.66)
    axis.axvline(0, color=_GREY, linewidth=0.8)
    pad = 0.02 * float(np.ptp(np.append(weights, 0.0)))
    for row, weight in enumerate(weights):
        text = f"{weight:+.2f}".replace("-", "−")
        at, side = (weight + pad, "left") if weight >= 0 else (weight - pad, "right")
        axis.text(at, row, text, va="center", ha=side, color=_GREY, fontsize=9)
    axis.margins(x=0.16)
    axis.spines["left"].set_visible(False)
    axis.tick_params(axis="y", length=0, labelcolor=_BLACK)
    title = f"What “{hidden.name}” was made from"
    axis.set(xlabel="weight of the seen digit's mean", title=title)


# ---------------------------------------------------------------------- the page
def _check_page() -> None:
    """Refuse before anything is trained where the service cannot run."""
    for package in ("fastapi", "uvicorn", "plotly"):
        import_extra(package, "serve")


def _serve_page(dataset: GZSLDataset, model: Any, port: int, browser: bool, as_json: bool) -> None:
    """Serve a model of the digits on this machine until Ctrl-C.

    Parameters
    ----------
    dataset : GZSLDataset
        The digits, of which the page offers test images.
    model : GZSLClassifier
        Fitted on the seen digits.
    port : int
        Where to listen; 0 takes any that is free.
    browser : bool
        Whether to open the page in the browser.
    as_json : bool
        Whether the address is printed as JSON.
    """
    with tempfile.TemporaryDirectory(prefix="hgkt-demo-", ignore_cleanup_errors=True) as folder:
        path = model.save(Path(folder) / dataset.name, **dataset.provenance())
        try:
            _serve(path, dataset, port, browser, as_json)
        except KeyboardInterrupt:
            note("stopped")  # how this demo is meant to end


def _serve(path: Path, dataset: GZSLDataset, port: int, browser: bool, as_json: bool) -> None:
    import uvicorn

    from hgkt.serving import ServiceSettings, create_app

    try:
        listening = socket.create_server((_HOST, port))
    except OSError as error:
        raise DataError(f"cannot listen at port {port}: {error.strerror}") from None
    port = listening.getsockname()[1]
    app = create_app(ServiceSettings(model=path, host=_HOST, port=port, samples=dataset.name))
    quiet: Any = {"log_level": "warning", "access_log": False, "server_header": False}
    config = uvicorn.Config(app, **quiet, timeout_graceful_shutdown=_PARTING_SECONDS)
    server = uvicorn.Server(config)
    hidden = dataset.names(dataset.unseen_classes)
    # The browser may only come once somebody listens, and may block: some run in the terminal.
    announce = (server, f"http://{_HOST}:{port}/", hidden, browser, as_json)
    threading.Thread(target=_announce, args=announce, daemon=True).start()
    server.run([listening])


def _announce(server: Any, address: str, hidden: list[str], browser: bool, as_json: bool) -> None:
    while not server.started:
        if server.should_exit:
            return
        time.sleep(0.02)
    head = f"the page is at {address}; never shown to the model: {' and '.join(hidden)}"
    emit({"address": address, "hidden": hidden}, as_json, lambda: say(head, *_TRY))
    if browser and not webbrowser.open(address):
        note("no browser was found; open the address by hand")
