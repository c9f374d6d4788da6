"""The figure of `hgkt demo`: images before and after, the seen–unseen curve, class weights."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hgkt.exceptions import DataError

if TYPE_CHECKING:
    from hgkt.cli.demo import DemoRun, HiddenDigit

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


def draw_demo(runs: list[DemoRun], hidden: HiddenDigit, path: Path) -> None:
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
        try:
            figure.savefig(path, dpi=150)
        except OSError as error:
            raise DataError(f"cannot write {path}: {error.strerror}") from error


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
        axis.text(0.5, -0.10, old, color=_GREY, ha="center", va="top", transform=axis.transAxes)
        axis.text(
            0.5,
            -0.34,
            f"→ {new}",
            color=color,
            fontweight="bold",
            ha="center",
            va="top",
            transform=axis.transAxes,
        )


def _draw_curves(axis: Any, runs: list[DemoRun]) -> None:
    for run, color in zip(runs, (_BLUE, _ORANGE), strict=True):
        unseen, seen = 100 * run.curve.unseen, 100 * run.curve.seen
        label = f"{run.title}: AUSUC {run.metrics.ausuc:.1f}"
        axis.plot(unseen, seen, color=color, linewidth=2, label=label)
        axis.fill_between(unseen, seen, color=color, alpha=0.10, linewidth=0)
        metrics = run.metrics
        axis.plot(metrics.ts, metrics.tr, "o", color=color, markersize=8, markeredgecolor="white")
        side = -1 if metrics.ts > 50 else 1
        axis.annotate(
            f"H {metrics.H:.1f}" + ("" if run.calibration else ", not calibrated"),
            (metrics.ts, metrics.tr),
            xytext=(10 * side, -4 if side < 0 else 6),
            textcoords="offset points",
            ha="right" if side < 0 else "left",
            va="top" if side < 0 else "bottom",
            color=color,
            fontweight="bold",
        )
    axis.set(
        xlim=(0, 100.5),
        ylim=(0, 100.5),
        xlabel="accuracy on unseen digits, %",
        ylabel="accuracy on seen digits, %",
    )
    axis.set_title("Seen–unseen curve over every calibration")
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
        axis.text(
            weight + (pad if weight >= 0 else -pad),
            row,
            f"{weight:+.2f}".replace("-", "−"),
            va="center",
            ha="left" if weight >= 0 else "right",
            color=_GREY,
            fontsize=9,
        )
    axis.margins(x=0.16)
    axis.spines["left"].set_visible(False)
    axis.tick_params(axis="y", length=0, labelcolor=_BLACK)
    axis.set_xlabel("weight of the seen digit's mean")
    axis.set_title(f"What “{hidden.name}” was made from")
