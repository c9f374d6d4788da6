"""Items of one option: a folder of photos, a table of texts, or a file of features."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from hgkt.cli._inputs import Input, about_model, read_images, show_unreadable
from hgkt.cli._output import progress_bar
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    from hgkt.estimators import GZSLClassifier

ItemsOption = Annotated[
    Path,
    typer.Option(
        "--items",
        metavar="PATH",
        help="Photos or a folder of them; of a model of texts, a table with a column text; or "
        "rows of features (.npy, .npz, .parquet, .mat).",
    ),
]


def item_rows(model: GZSLClassifier, path: Path, weights: Path | None, device: str) -> Input:
    """Return the features of items, with their names: files, texts, or numbers of rows.

    Parameters
    ----------
    model : GZSLClassifier
        A loaded model; ``about_`` says what it reads.
    path : Path
        The items.
    weights : Path or None
        Of images: where the weights of the backbone are now.
    device : str
        Where to compute.
    """
    from hgkt.data import FEATURE_SUFFIXES, read_features

    about = about_model(model)
    if about.get("text_encoder") and path.suffix in (".csv", ".jsonl", ".ndjson"):
        return _texts(model, path, device)
    if path.is_file() and path.suffix in FEATURE_SUFFIXES:
        rows = read_features(path, model.n_features_in_)
        return Input(rows, tuple(f"row {number}" for number in range(len(rows))))
    given = read_images([path], model, weights, device)
    show_unreadable(given)
    if not len(given.features):
        raise DataError(f"none of the images in {path} can be read")
    return given


def _texts(model: GZSLClassifier, path: Path, device: str) -> Input:
    from hgkt.items import TextClassifier, read_text_table

    texts = [text for text in read_text_table(path)["text"].tolist() if isinstance(text, str)]
    kept = tuple(text for text in texts if text.strip())
    if not kept:
        raise DataError(f"{path} holds no text; a column text with words is expected")
    with progress_bar() as bar:
        features = TextClassifier(model, device).encoder.encode(kept, bar).astype(np.float32)
    return Input(features, kept)
