"""Figures as files and as part of a page: PNG, SVG, and SVG that follows the page's colours."""

from __future__ import annotations

import base64
import io
import re
from html import escape
from typing import TYPE_CHECKING

from hgkt.experiments.style import INK, MUTED, PAPER, RULE, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DPI = 200
_MAX_INLINE = 600_000
_COLOURS = {INK: "--ink", MUTED: "--muted", RULE: "--rule", PAPER: "--paper"}


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


def inline(name: str, title: str, svg: str, png: bytes) -> str:
    """Return the HTML of a figure: its SVG, or the PNG where the SVG is large.

    Parameters
    ----------
    name : str
        Goes before every id, so that two figures on a page never share one.
    title : str
        For those who do not see it.
    svg : str
        As `svg_of` returns it.
    png : bytes
        As `png_of` returns it.
    """
    width = _width(svg)
    box = f'style="--width: {width}pt"'
    if len(svg) > _MAX_INLINE:
        data = base64.b64encode(png).decode()
        label = escape(title, quote=True)
        return f'<img class="drawing" {box} alt="{label}" src="data:image/png;base64,{data}">'
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', body)
    body = re.sub(r'(href="#|url\(#)([^")]+)', rf"\1{name}-\2", body)
    for colour, variable in _COLOURS.items():
        body = body.replace(f": {colour}", f": var({variable}, {colour})")
    head = f'<svg class="drawing" {box} role="img" aria-label="{escape(title, quote=True)}"'
    return re.sub(
        r'<svg([^>]*?) width="[^"]*"', lambda m: head + m.group(1), _without_height(body), count=1
    )


def _without_height(svg: str) -> str:
    return re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)


def _width(svg: str) -> int:
    found = re.search(r'<svg[^>]*?\bwidth="([\d.]+)', svg)
    return round(float(found.group(1))) if found else 460
