"""The instances that stand for their classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hgkt.experiments.ablations._common import NOTHING, good, missing_words, slug
from hgkt.experiments.base import (
    Block,
    Cell,
    CellResult,
    Context,
    DataSpec,
    Experiment,
    FigureBlock,
    Results,
    TableBlock,
    TextBlock,
    Value,
)
from hgkt.experiments.figures.tsne import short

_WAYS = {"wasserstein": "Wasserstein", "euclidean": "Euclidean", "random": "random"}
_N_SHOWN = 10


def cell_of(data: DataSpec, way: str) -> Cell:
    """Return the cell of one way to select on one data set.

    Parameters
    ----------
    data : DataSpec
        The data set.
    way : {"wasserstein", "euclidean", "random"}
        How.
    """
    params = {} if way == "wasserstein" else {"representative": way}
    return Cell("representatives", data, "hgkt", "paper", params)


def plan(context: Context) -> list[Cell]:
    """Return three cells a data set.

    Parameters
    ----------
    context : Context
        What the run is about.
    """
    return [cell_of(data, way) for data in context.data for way in _WAYS]


def render(context: Context, results: Results) -> list[Block]:
    """Show images where there are some, else a table of rows and files.

    Parameters
    ----------
    context : Context
        What the run is about.
    results : mapping
        Results by cell key.
    """
    if not context.data:
        return [NOTHING]
    blocks: list[Block] = []
    for data in context.data:
        cells = [cell_of(data, way) for way in _WAYS]
        found = {
            way: results[cell.key]
            for way, cell in zip(_WAYS, cells, strict=True)
            if cell.key in results and results[cell.key].ok
        }
        if not good(results, cells):
            words = missing_words(results, cells)
            blocks.append(TextBlock(f"Representatives, {data.name}: {words}"))
            continue
        pictures = _pictures(found, context.image_root)
        if pictures is not None:
            blocks.append(_drawing(data, found, pictures))
        blocks.append(_table(data, found))
    return blocks


def _pictures(found: dict[str, CellResult], image_root: Path | None) -> dict[str, list[Any]] | None:
    """Return for each way the images of the first classes, or None where there are none."""
    pictures: dict[str, list[Any]] = {}
    for way, result in found.items():
        pixels = result.values.get("pixels")
        if pixels and "images" in result.arrays:
            shape = (int(pixels["height"]), int(pixels["width"]))
            rows = result.arrays["images"][:_N_SHOWN] / float(pixels["maximum"])
            pictures[way] = [1.0 - row.reshape(shape) for row in rows]
        elif image_root is not None and result.values.get("files"):
            files = result.values["files"][:_N_SHOWN]
            loaded = [load_image(image_root, file) for file in files]
            if not any(image is not None for image in loaded):
                return None
            pictures[way] = loaded
        else:
            return None
    return pictures or None


def load_image(image_root: Path, file: str, side: int = 160) -> Any:
    """Return an image as an array of at most `side` pixels a side, or None where it is not there.

    Benchmarks name files by where they lay on their authors' machines: the longest tail of the
    name that exists below `image_root` is taken.

    Parameters
    ----------
    image_root : Path
        Folder of the images.
    file : str
        Name as the data set has it.
    side : int
        Size to shrink to.
    """
    from PIL import Image, UnidentifiedImageError

    parts = [part for part in file.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    for start in range(len(parts)):
        path = image_root.joinpath(*parts[start:])
        if path.is_file():
            try:
                with Image.open(path) as image:
                    image.thumbnail((side, side))
                    return np.asarray(image.convert("RGB"))
            except (OSError, UnidentifiedImageError):
                return None
    return None


def _drawing(
    data: DataSpec, found: dict[str, CellResult], pictures: dict[str, list[Any]]
) -> FigureBlock:
    import pandas as pd

    from hgkt.experiments import style

    classes = next(iter(found.values())).values["classes"][:_N_SHOWN]
    with style.styled():
        drawing, axes = style.figure(
            1.0 + 0.85 * len(classes), 0.35 + 0.95 * len(pictures), rows=len(pictures),
            columns=len(classes), squeeze=False,
        )  # fmt: skip
        for line, (way, images) in zip(axes, pictures.items(), strict=True):
            for axis, image in zip(line, images, strict=True):
                axis.set(xticks=[], yticks=[])
                axis.grid(visible=False)
                for spine in axis.spines.values():
                    spine.set(visible=True, color=style.RULE)
                if image is None:
                    axis.text(0.5, 0.5, "no file", ha="center", va="center", color=style.MUTED,
                              fontsize=7, transform=axis.transAxes)  # fmt: skip
                else:
                    axis.imshow(image, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
            line[0].set_ylabel(_WAYS[way])
        for axis, name in zip(axes[0], classes, strict=True):
            axis.set_title(short(name, 12), fontsize=8, fontweight="normal", loc="center")
    lines = [
        {"way": way, "class": name, "row": int(row)}
        for way, result in found.items()
        for name, row in zip(classes, result.arrays["rows"], strict=False)
    ]
    total = len(next(iter(found.values())).values["classes"])
    which = f"the first {len(classes)} of {total}" if total > len(classes) else f"all {total}"
    return FigureBlock(
        slug("figure-representatives", data.name),
        f"Representatives, {data.name}",
        drawing,
        pd.DataFrame(lines),
        f"One image a class, {which} seen classes: nearest to the Wasserstein barycenter, nearest "
        "to the mean, and drawn at random.",
        tuple(result.cell.key for result in found.values()),
    )


def _table(data: DataSpec, found: dict[str, CellResult]) -> TableBlock:
    first = next(iter(found.values()))
    rows: list[list[Value | str]] = []
    for position, name in enumerate(first.values["classes"][:_N_SHOWN]):
        line: list[Value | str] = [name]
        for result in found.values():
            files = result.values.get("files")
            row = int(result.arrays["rows"][position])
            text = f"row {row}" + (f", {Path(files[position]).name}" if files else "")
            line.append(Value(text, keys=(result.cell.key,)))
        rows.append(line)
    notes = [f"{len(first.values['classes'])} seen classes, the first {len(rows)} shown."]
    if {"wasserstein", "euclidean"} <= set(found):
        same = found["wasserstein"].arrays["rows"] == found["euclidean"].arrays["rows"]
        notes.append(
            f"Wasserstein and Euclidean agree in {100 * same.mean():.0f} % of all classes."
        )
    return TableBlock(
        slug("figure-representatives-rows", data.name),
        f"Rows of the representatives, {data.name}",
        ["Class", *(_WAYS[way] for way in found)],
        rows,
        " ".join(notes),
    )


EXPERIMENT = Experiment(
    "Representative instances",
    "The paper shows images of CUB selected by the Wasserstein barycenter (top) and by the "
    "Euclidean one (bottom) and finds the former more distinctive. Images are shown where the data "
    "set carries them or their folder is given; else the rows and files are listed.",
    plan,
    render,
)
