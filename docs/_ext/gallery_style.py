"""The look of the figures in the gallery: that of the report."""

from __future__ import annotations

from typing import Any

import matplotlib
from cycler import cycler

from hgkt.experiments.style import PALETTE, settings


def use_style(gallery_conf: dict[str, Any], fname: str) -> None:
    """Set matplotlib up before every example; Sphinx-Gallery calls it."""
    matplotlib.rcdefaults()
    matplotlib.use("agg")
    matplotlib.rcParams.update(settings())
    matplotlib.rcParams.update(
        {
            "axes.prop_cycle": cycler(color=PALETTE),
            "figure.constrained_layout.use": True,
            "figure.dpi": 110,
            "image.interpolation": "nearest",
        }
    )
