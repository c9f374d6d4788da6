"""The look that all figures share, and figures as files and as part of a page.

Fonts, thin rules, colours that colour-blind readers tell apart. Figures are made without pyplot,
so nothing depends on a display or on global state.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
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

_DPI = 200


@cache
def settings() -> Any:
    """Return matplotlib's settings by name, as ``report.mplstyle`` has them."""
    from matplotlib import rc_params_from_file

    path = Path(__file__).with_name("report.mplstyle")
    return rc_params_from_file(path, use_default_template=False)


@contextmanager
def styled() -> Iterator[None]:
    """Apply the style to all that is drawn inside the block: legends, annotations, colour bars."""
    from matplotlib import rc_context

    with rc_context(settings()):
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


@contextmanager
def drawn(width: float, height: float, **panels: Any) -> Iterator[tuple[Figure, Any]]:
    """Yield a figure and its panels, as `figure` makes them, and keep the style meanwhile."""
    with styled():
        yield figure(width, height, **panels)


def shades() -> Any:
    """Return a colour map from the paper's white to dark blue, for counts and shares."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("shades", [PAPER, "#9ecae1", "#08519c"])


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


def bare(axes: Any, frame: str = "") -> None:
    """Take ticks, grid and frame away; or leave a frame of a colour.

    Parameters
    ----------
    axes : Axes
        The panel.
    frame : str
        Colour of its frame; empty for none.
    """
    axes.set(xticks=[], yticks=[])
    axes.grid(visible=False)
    axes.spines[:].set(visible=bool(frame), color=frame or RULE)


def short(name: str, limit: int = 18) -> str:
    """Return a class name as a legend can hold it: no number, no underscores, cut.

    Parameters
    ----------
    name : str
        A class name.
    limit : int
        Most characters.

    Examples
    --------
    >>> short("001.Black_footed_Albatross"), short("humpback+whale")
    ('Black footed Albat…', 'humpback whale')
    """
    head, dot, tail = name.partition(".")
    text = (tail if dot and head.isdigit() else name).replace("_", " ").replace("+", " ")
    return text if len(text) <= limit else f"{text[:limit].rstrip()}…"


def png_of(figure: Figure) -> bytes:
    """Return the figure as PNG, cut so that no text is clipped.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The figure.
    """
    buffer = io.BytesIO()
    with styled():
        figure.savefig(buffer, format="png", dpi=_DPI, bbox_inches="tight", pad_inches=0.06,
                       metadata={"Software": None})  # fmt: skip
    return buffer.getvalue()


def svg_of(figure: Figure) -> str:
    """Return the figure as SVG, the same text for the same figure.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The figure.
    """
    buffer = io.StringIO()
    with styled():
        figure.savefig(buffer, format="svg", bbox_inches="tight", pad_inches=0.06,
                       metadata={"Date": None, "Creator": None})  # fmt: skip
    return buffer.getvalue()
