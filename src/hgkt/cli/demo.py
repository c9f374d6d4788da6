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
from hgkt.cli._options import with_options
from hgkt.cli._output import emit, figures_table, note, out, progress_bar, say
from hgkt.exceptions import DataError
from hgkt.experiments import style

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
    seed: int = 0,
    as_json: bool = False,
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
    from hgkt.estimators import HGKTClassifier

    start = time.perf_counter()
    if not page:
        _check_figure(out_file)
    for package in ("fastapi", "uvicorn", "plotly") if page else ():
        import_extra(package, "serve")
    dataset = load_dataset("digits")
    with progress_bar() as progress:
        closed_form = HGKTClassifier(device="cpu")
        model, default = _test("closed form", closed_form, dataset, True, seed, progress)
        runs = [default, *([] if page else _paper_run(dataset, seed, progress))]
    if page:
        _serve_page(dataset, model, port, browser, as_json)
        return
    hidden = _hidden_digit(model, dataset, seed)
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


def _paper_run(dataset: GZSLDataset, seed: int, progress: Progress) -> list[DemoRun]:
    """Train the paper's network; without torch say what it needs."""
    if find_spec("torch") is None:
        note("the paper's network is left out: it needs pip install 'hgkt[network]'")
        return []
    import torch

    from hgkt.estimators import HGKTNetworkClassifier

    model = HGKTNetworkClassifier.from_preset("exact", random_state=seed, device="cpu")
    # Sixteen rows per step: waiting for a second thread costs more than it brings.
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [_test("network", model, dataset, False, seed, progress)[1]]
    finally:
        torch.set_num_threads(n_threads)


def _test(
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
    """Draw the digit, the curves of the models, and what the digit was made from."""
    from matplotlib.figure import Figure

    with style.styled():
        drawing: Any = Figure(figsize=(11, 6.5), layout="constrained")
        top, bottom = drawing.subfigures(2, 1, height_ratios=(0.84, 2))
        _draw_images(top, hidden)
        left, right = bottom.subplots(1, 2, width_ratios=(1.15, 1))
        _draw_curves(left, runs)
        _draw_weights(right, hidden)
        with atomic_file(path) as scratch:
            drawing.savefig(scratch, dpi=150, format=path.suffix[1:].lower())


def _draw_images(part: Any, hidden: HiddenDigit) -> None:
    title = (
        f"A digit without training images: what the model says before, and after “{hidden.name}” "
        "was added by its attributes"
    )
    part.suptitle(title, x=0.008, ha="left", fontweight="bold")
    axes = part.subplots(1, len(hidden.images), gridspec_kw={"wspace": 0.12})
    rows = zip(axes, hidden.images, hidden.before, hidden.after, strict=True)
    for axis, image, old, new in rows:
        colour = style.colour(2 if new == hidden.name else 1)
        axis.imshow(image, cmap="gray_r", interpolation="nearest")
        axis.set_anchor("N")
        style.bare(axis, frame=colour)
        axis.text(
            0.5, -0.10, old, color=style.MUTED, ha="center", va="top", transform=axis.transAxes
        )
        axis.text(
            0.5, -0.34, f"→ {new}", color=colour, ha="center", va="top", transform=axis.transAxes
        )


def _draw_curves(axis: Any, runs: list[DemoRun]) -> None:
    for number, run in enumerate(runs):
        look, m = style.series(number, marker=False), run.metrics
        axis.plot(100 * run.curve.unseen, 100 * run.curve.seen, **look,
                  label=f"{run.title}: AUSUC {m.ausuc:.1f}")  # fmt: skip
        axis.plot(m.ts, m.tr, "o", color=look["color"])
        text = f"H {m.H:.1f}" + ("" if run.calibration else ", not calibrated")
        # Inside of the picture: left of a point that lies right of the middle.
        side = "right" if m.ts > 50 else "left"
        axis.annotate(text, (m.ts, m.tr), (-6 if m.ts > 50 else 6, -6 if m.ts > 50 else 6),
                      textcoords="offset points", ha=side, color=look["color"])  # fmt: skip
    axis.set(xlim=(0, 100.5), ylim=(0, 100.5), title="Seen–unseen curve over every calibration")
    axis.set(xlabel="accuracy on unseen digits, %", ylabel="accuracy on seen digits, %")
    axis.legend(loc="lower left")


def _draw_weights(axis: Any, hidden: HiddenDigit) -> None:
    sources = hidden.explanation.sources[::-1]
    bars = axis.barh([str(s.label) for s in sources], [s.weight for s in sources])
    axis.bar_label(bars, fmt="{:+.2f}", padding=3)
    axis.margins(x=0.16)
    axis.grid(axis="y", visible=False)
    axis.set(xlabel="weight of the seen digit's mean", title=f"What “{hidden.name}” was made from")


# ---------------------------------------------------------------------- the page
def _serve_page(dataset: GZSLDataset, model: Any, port: int, browser: bool, as_json: bool) -> None:
    """Serve a model of the digits on this machine until Ctrl-C."""
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
    # The port listens already: who comes before the server runs waits in its queue.
    address, hidden = f"http://{_HOST}:{port}/", dataset.names(dataset.unseen_classes)
    head = f"the page is at {address}; never shown to the model: {' and '.join(hidden)}"
    emit({"address": address, "hidden": hidden}, as_json, lambda: say(head, *_TRY))
    if browser:  # which may block: some run in the terminal
        threading.Thread(target=_open_browser, args=(address,), daemon=True).start()
    uvicorn.Server(config).run([listening])


def _open_browser(address: str) -> None:
    if not webbrowser.open(address):
        note("no browser was found; open the address by hand")
