"""What `hgkt demo` shows: a figure, or with ``--page`` the service's page in the browser."""

from __future__ import annotations

import tempfile
import threading
import time
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hgkt._files import atomic_file
from hgkt._validation import import_extra
from hgkt.cli._common import emit, note, say

if TYPE_CHECKING:
    from hgkt.cli.demo import DemoRun, HiddenDigit
    from hgkt.data import GZSLDataset

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
    "axes.labelcolor": _BLACK,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "xtick.color": _GREY,
    "ytick.color": _GREY,
}


# ---------------------------------------------------------------------- the figure
def draw_figure(runs: list[DemoRun], hidden: HiddenDigit, path: Path) -> None:
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
    figure.suptitle(
        f"A digit without training images: what the model says before, and after “{hidden.name}” "
        "was added by its attributes",
        x=0.008,
        ha="left",
        fontsize=11,
        fontweight="bold",
    )
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
        right, left = ((-10, -4), "right", "top"), ((10, 6), "left", "bottom")
        offset, ha, va = right if metrics.ts > 50 else left
        axis.annotate(
            f"H {metrics.H:.1f}" + ("" if run.calibration else ", not calibrated"),
            (metrics.ts, metrics.tr),
            xytext=offset,
            textcoords="offset points",
            ha=ha,
            va=va,
            color=color,
            fontweight="bold",
        )
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
def check_page() -> None:
    """Refuse before anything is trained where the service cannot run."""
    for package in ("fastapi", "uvicorn", "sqlalchemy", "prometheus_client", "multipart", "plotly"):
        import_extra(package, "serve")


def serve_page(dataset: GZSLDataset, model: Any, port: int, browser: bool, as_json: bool) -> None:
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

    from hgkt.cli.serve import free_port
    from hgkt.serving import ServiceSettings, create_app

    port = free_port(_HOST, port)
    app = create_app(ServiceSettings(model=path, host=_HOST, port=port, samples=dataset.name))
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            host=_HOST,
            port=port,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_PARTING_SECONDS,
        )
    )
    hidden = dataset.names(dataset.unseen_classes)
    # The browser may only come once somebody listens, and may block: some run in the terminal.
    announce = (server, f"http://{_HOST}:{port}/", hidden, browser, as_json)
    threading.Thread(target=_announce, args=announce, daemon=True).start()
    server.run()


def _announce(server: Any, address: str, hidden: list[str], browser: bool, as_json: bool) -> None:
    while not server.started:
        if server.should_exit:
            return
        time.sleep(0.02)
    head = f"the page is at {address}; never shown to the model: {' and '.join(hidden)}"
    emit({"address": address, "hidden": hidden}, as_json, lambda: say(head, *_TRY))
    if browser and not webbrowser.open(address):
        note("no browser was found; open the address by hand")
