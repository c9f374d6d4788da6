"""What a user hands in: a model folder, rows of features, images, attribute vectors."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hgkt._files import locked, reading
from hgkt.cli._output import note, progress_bar, unreadable_document, unreadable_lines
from hgkt.exceptions import DataError, ModelFolderError

if TYPE_CHECKING:
    from hgkt.data import GZSLDataset
    from hgkt.items import ImageClassifier, TextClassifier


# ---------------------------------------------------------------------- models
NO_THRESHOLDS = (
    "this model has no thresholds from validation classes; train it with `hgkt train --calibrate` "
    "on six classes or more"
)


def load_model(folder: Path) -> Any:
    """Load the model of a folder; what that takes is imported only now."""
    from hgkt import estimators

    return estimators.load_model(folder)


def label_of(model: Any, text: str) -> Any:
    """Turn text into a label of the kind the model has: a string or a number."""
    kind = model.seen_classes_.dtype.kind
    if kind not in "iuf":
        return text
    try:
        return float(text) if kind == "f" else int(text)
    except ValueError:
        raise DataError(f"the classes of this model are numbers; got {text!r}") from None


def candidate_names(model: Any, among: str) -> str | list[Any]:
    """Return what ``--among`` stands for as `GZSLClassifier.candidates` takes it."""
    if among in ("all", "seen", "unseen"):
        return among
    # A class name may hold a comma, so the whole text is tried first.
    names = [among] if among in model.classes_.tolist() else among.split(",")
    return [label_of(model, name.strip()) for name in names]


def check_backbone(model: Any, about: Mapping[str, Any], name: str) -> None:
    """Refuse features of another network, which would be scored without a word.

    Parameters
    ----------
    model : GZSLClassifier
        The model; its folder says which backbone made the features it was trained on.
    about : mapping
        What is known of a data set.
    name : str
        Its name.
    """
    own, other = model.about_.get("backbone"), about.get("backbone")
    if own and other and own.get("sha256") != other.get("sha256"):
        raise DataError(
            f"the model was trained on features of {own['name']!r}; those of data set "
            f"{name!r} come from {other['name']!r} with other weights and cannot be mixed"
        )


def load_matching(
    model: Any,
    name: str,
    root: Path | None,
    features: str | None = None,
    with_attributes: bool = False,
) -> GZSLDataset:
    """Load a data set with the feature file and the attribute kind that the model was made with.

    Parameters
    ----------
    model : GZSLClassifier
        The model; what it was made with is in its folder.
    name : str
        Name or path of the data set.
    root : Path or None
        Folder of the benchmark's folders.
    features : str, optional
        Another feature file, without suffix; by default the model's.
    with_attributes : bool
        Whether the class vectors are needed too. Those of a file of their own, which may be gone,
        are read only then; to predict, features are enough.
    """
    from hgkt.data import load_dataset
    from hgkt.data.attributes import is_file, split_kinds

    about = model.about_
    kinds = split_kinds(str(about.get("attributes") or "att"))
    chosen = [kind for kind in kinds if with_attributes or not is_file(kind)]
    from_files = [kind for kind in chosen if is_file(kind)]
    options: dict[str, Any] = {}
    if about.get("layout") == "xlsa17":
        stem = Path(str(about.get("features", ""))).stem
        if features is not None and features != stem:
            raise DataError(
                f"the model was trained on the features {stem!r}; {features!r} cannot be mixed in"
            )
        options = {"features": stem, "attributes": "+".join(chosen) or "att"}
    elif features is not None:
        options = {"features": features}
    if from_files:
        options["attributes"] = "+".join(chosen)
    try:
        data = load_dataset(name, root=root, **options)
    except DataError as error:
        if not from_files:
            raise
        raise DataError(
            f"{error}; the class vectors of this model came from {', '.join(from_files)}: put the "
            "file there, or add classes with --text or --file"
        ) from error
    if data.features.shape[1] != model.n_features_in_:
        raise DataError(
            f"data set {data.name!r} has {data.features.shape[1]} features a row; "
            f"the model expects {model.n_features_in_}"
        )
    return data


@contextmanager
def held(folder: Path) -> Iterator[Any]:
    """Load a model to change it; other commands that would change its folder wait.

    Parameters
    ----------
    folder : Path
        The model folder.

    Yields
    ------
    GZSLClassifier
        The model as it is once nobody else changes it.
    """

    def waiting() -> None:
        note(f"waiting: another command is changing {folder}")

    # Of a folder that is not there, reading it says so better than locking it.
    with locked(folder, ModelFolderError, waiting) if folder.is_dir() else nullcontext():
        loaded = load_model(folder)
        with progress_bar() if loaded.retrains_on_add else nullcontext() as progress:
            yield loaded.on_progress(progress)
        loaded.on_progress(None)


# ---------------------------------------------------------------------- features, images, texts
@dataclass(frozen=True)
class Input:
    """Features to predict, and what they were made of.

    Parameters
    ----------
    features : ndarray of shape (n, n_features)
        One row per instance.
    items : tuple of str or None
        The image or the text of each row; None where the features came from a file of features.
    unreadable : tuple of (str, str)
        Items that were left out, each with the sentence that says why.
    passed_over : dict of str to int
        Files of folders that are no images, by suffix.
    """

    features: NDArray[Any]
    items: tuple[str, ...] | None = None
    unreadable: tuple[tuple[str, str], ...] = ()
    passed_over: Mapping[str, int] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """What to call each row: its item, or its number."""
        return self.items or tuple(f"row {number}" for number in range(len(self.features)))

    def report(self) -> dict[str, Any]:
        """Return what JSON says about items that were left out; of features, nothing."""
        if self.items is None:
            return {}
        return {
            "n_unreadable": len(self.unreadable),
            "unreadable": unreadable_document(self.unreadable),
            "passed_over": dict(self.passed_over),
        }

    def noted(self, noun: str) -> Input:
        """Say on stderr which items were left out, and why; return this."""
        from hgkt.vision.listing import passed_over_text

        left_out = unreadable_document(self.unreadable)
        for line in unreadable_lines(left_out, noun, "; --json has all"):
            note(line)
        if self.passed_over:
            note(passed_over_text(self.passed_over))
        return self


def reader_of(
    model: Any, weights: Path | None = None, device: str = "auto"
) -> ImageClassifier | TextClassifier:
    """Return a loaded model as one that reads the items it was trained on, photos or texts.

    Parameters
    ----------
    model : GZSLClassifier
        The model; its folder says what made the features it was trained on.
    weights : Path, optional
        Of images: file or folder with the weights of the backbone, if they were moved.
    device : str
        Where to compute.
    """
    from hgkt.items import ImageClassifier, TextClassifier

    if not model.about_.get("text_encoder"):
        return ImageClassifier(model, device, weights)
    if weights is not None:
        raise DataError("--weights is for photos; this model reads texts")
    return TextClassifier(model, device)


def read_input(path: Path, model: Any, weights: Path | None = None, device: str = "auto") -> Input:
    """Read a file of features, or extract those of an image or a folder of images.

    Parameters
    ----------
    path : Path
        The file or the folder (of any depth), to which the names of images are relative.
    model, weights, device
        See `reader_of`.
    """
    from hgkt.items import ImageClassifier

    if _holds_features(path):
        return _read_features(path, model)
    base = path if path.is_dir() else path.parent
    return read_images([path], ImageClassifier(model, device, weights), base)


def read_items(path: Path, model: Any, weights: Path | None, device: str) -> Input:
    """Read photos, a table of texts where the model reads texts, or a file of features.

    Parameters
    ----------
    path : Path
        The items.
    model, weights, device
        See `reader_of`.
    """
    from hgkt.items import ImageClassifier, TextClassifier

    if model.about_.get("text_encoder") and path.suffix in (".csv", ".jsonl", ".ndjson"):
        return read_texts(table_texts(path), TextClassifier(model, device))
    if _holds_features(path):
        return _read_features(path, model)
    return read_images([path], ImageClassifier(model, device, weights))


def _holds_features(path: Path) -> bool:
    from hgkt.vision.images import IMAGE_SUFFIXES

    return not path.is_dir() and path.suffix.lower() not in IMAGE_SUFFIXES


def _read_features(path: Path, model: Any) -> Input:
    from hgkt.data import read_features

    return Input(read_features(path, model.n_features_in_))


def read_images(paths: Sequence[Path], reader: ImageClassifier, base: Path | None = None) -> Input:
    """Extract the features of images and of folders of images, with the model's own backbone.

    Parameters
    ----------
    paths : sequence of Path
        Images, and folders of images (of any depth).
    reader : ImageClassifier
        What reads them.
    base : Path, optional
        What the names of files are relative to; by default they are as given.
    """
    from hgkt.vision import ImageEntry

    files, others = _images_at(paths)
    names = [str(file) if base is None else file.relative_to(base).as_posix() for file in files]
    with progress_bar() as bar:
        found = reader.extract([*map(ImageEntry, names, files)], bar)
    items = tuple(entry.id for entry in found.entries)
    unreadable = tuple((entry.id, reason) for entry, reason in found.unreadable)
    return Input(found.features, items, unreadable, others).noted("image")


def read_texts(texts: Sequence[Any], reader: TextClassifier) -> Input:
    """Encode texts; empty ones are left out.

    Parameters
    ----------
    texts : sequence
        The texts; what is no text counts as empty.
    reader : TextClassifier
        What reads them.
    """
    empty = [not isinstance(text, str) or not text.strip() for text in texts]
    kept = tuple(text for text, is_empty in zip(texts, empty, strict=True) if not is_empty)
    if not kept:
        raise DataError("all texts are empty; words are expected")
    unreadable = [(f"text {n}", f"text {n} is empty") for n in np.flatnonzero(empty).tolist()]
    with progress_bar() as bar:
        features = reader.encoder.encode(kept, bar).astype(np.float32)
    return Input(features, kept, tuple(unreadable)).noted("text")


def table_texts(path: Path) -> list[Any]:
    """Return the column ``text`` of a table."""
    from hgkt.items import read_text_table

    texts: list[Any] = read_text_table(path)["text"].tolist()
    return texts


def _images_at(paths: Sequence[Path]) -> tuple[list[Path], dict[str, int]]:
    """Return the images of files and folders, each once, and what folders hold besides."""
    from hgkt.vision import find_images
    from hgkt.vision.listing import passed_over, passed_over_text

    files: dict[Path, None] = {}
    others: Counter[str] = Counter()
    for path in paths:
        found = find_images(path) if path.is_dir() else [path]
        more = passed_over(path)
        if not found:
            why = f"; {passed_over_text(more)}" if more else ""
            raise DataError(f"{path} has no images{why}")
        files |= dict.fromkeys(found)
        others.update(more)
    return list(files), dict(others)


# ---------------------------------------------------------------------- attribute vectors
def read_vector(text: str) -> NDArray[np.float64]:
    """Read ``"0.1, 0.2"``, or ``@FILE`` with the numbers as text, JSON list or .npy.

    Examples
    --------
    >>> read_vector("0.5, 1")
    array([0.5, 1. ])
    """
    source, values = "--attributes", None
    if text.startswith("@"):
        path = Path(text[1:])
        source = str(path)
        if path.suffix == ".npy":
            from hgkt.data.arrays import read_npy

            values = read_npy(path)
        else:
            with reading(path, "attributes"):
                text = path.read_text(encoding="utf-8")
    if values is None:
        words = [word for word in re.split(r"[\s,;\[\]]+", text) if word]
        try:
            values = np.array([float(word) for word in words])
        except ValueError as error:
            sentence = f"{source}: {error}; numbers with commas between are expected"
            raise DataError(sentence) from None
    if values.ndim != 1 or values.dtype.kind not in "fiub" or not len(values):
        raise DataError(f"{source} must hold one vector of numbers; got shape {values.shape}")
    return values.astype(np.float64)


def read_pairs(pairs: list[str]) -> dict[str, float]:
    """Read ``NAME=VALUE`` pairs; a name may hold an equals sign itself.

    Examples
    --------
    >>> read_pairs(["striped=1", "Hooves = 0.5"])
    {'striped': 1.0, 'Hooves': 0.5}
    """
    values = {}
    for pair in pairs:
        name, equals, value = pair.rpartition("=")
        if not equals:
            raise DataError(f"--attribute expects NAME=VALUE; got {pair!r}")
        try:
            values[name.strip()] = float(value)
        except ValueError:
            raise DataError(
                f"attribute {name!r} has the value {value!r}; a number is expected"
            ) from None
    return values
