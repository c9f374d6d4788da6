"""The look that all figures share: fonts, thin rules, colours that colour-blind readers tell apart.

Figures are made without pyplot, so nothing depends on a display or on global state. Ink, rules and
paper are drawn in the three colours named here; the report exchanges them in dark mode.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#1f2328"
MUTED = "#6b7280"
RULE = "#d8dce2"
PAPER = "#ffffff"

# Okabe and Ito's colours, the yellow darkened so that it can be seen on white.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#b8860b", "#7f7f7f", "#332288")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (7, 2)))
SEQUENTIAL = "cividis"

STYLE: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.facecolor": "none",
    "axes.labelcolor": INK,
    "axes.labelsize": 9.0,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "image.cmap": SEQUENTIAL,
    "svg.fonttype": "path",  # an SVG looks the same where the fonts are not installed
    "svg.hashsalt": "hgkt",  # and the same run gives the same file
}


@contextmanager
def styled() -> Iterator[None]:
    """Apply the style to all that is drawn inside the block: legends, annotations, colour bars."""
    from matplotlib import rc_context

    settings: Any = STYLE  # matplotlib types every name of a setting
    with rc_context(settings):
        yield


def figure(
    width: float = 6.4, height: float = 4.0, rows: int = 1, columns: int = 1, **subplots: Any
) -> tuple[Figure, Any]:
    """Make a styled figure without pyplot; the layout keeps all text inside it.

    Parameters
    ----------
    width, height : float
        In inches; 6.4 wide fills the text column of the report.
    rows, columns : int
        Number of panels.
    **subplots
        For `matplotlib.figure.Figure.subplots`: ``sharex``, ``width_ratios``, ...

    Returns
    -------
    figure : matplotlib.figure.Figure
        The figure.
    axes : Axes or ndarray of Axes
        One `Axes` for a single panel, else an array of them, as matplotlib does.

    Examples
    --------
    >>> drawing, axes = figure(4.0, 3.0)
    >>> drawing.get_size_inches().tolist(), axes.get_title()
    ([4.0, 3.0], '')
    >>> figure(6.0, 3.0, columns=2)[1].shape
    (2,)
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with styled():
        made = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(made)
        axes = made.subplots(rows, columns, **subplots)
    return made, axes


def colour(index: int) -> str:
    """Return the colour of series `index`; they repeat after eight.

    Parameters
    ----------
    index : int
        Position of the series.

    Examples
    --------
    >>> colour(0) == colour(8)
    True
    """
    return PALETTE[index % len(PALETTE)]


def series(index: int, *, marker: bool = True) -> dict[str, Any]:
    """Return colour, marker and line of series `index` as arguments of ``Axes.plot``.

    Colour and line style change together, so that a print in grey still tells them apart; where
    the colours start again, they have other lines.

    Parameters
    ----------
    index : int
        Position of the series.
    marker : bool
        Whether points are marked.

    Examples
    --------
    >>> series(1, marker=False)
    {'color': '#d55e00', 'linestyle': '--'}
    >>> series(0)["linestyle"] == series(len(PALETTE))["linestyle"]
    False
    """
    line = LINES[(index + index // len(PALETTE)) % len(LINES)]
    given: dict[str, Any] = {"color": colour(index), "linestyle": line}
    if marker:
        given["marker"] = MARKERS[index % len(MARKERS)]
    return given
