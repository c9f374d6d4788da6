"""What a user hands in: model folders, features, photos, texts, and descriptions of classes."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hgkt._files import locked, reading
from hgkt._validation import label_of
from hgkt.cli._options import ReaderOptions
from hgkt.cli._output import left_out, left_out_lines, note, progress_bar
from hgkt.exceptions import ClassWarning, DataError, ModelFolderError

if TYPE_CHECKING:
    from hgkt.data import GZSLDataset
    from hgkt.items import ImageClassifier, TextClassifier
    from hgkt.language import Describer
    from hgkt.vision import ImageEntry


# ---------------------------------------------------------------------- models
NO_THRESHOLDS = (
    "this model has no thresholds from validation classes; train it with `hgkt train --calibrate` "
    "on six classes or more"
)


def load_model(folder: Path) -> Any:
    """Load the model of a folder; what that takes is imported only now."""
    from hgkt import estimators

    return estimators.load_model(folder)


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
    kinds = [kind for kind in kinds if with_attributes or not is_file(kind)]
    from_files, is_benchmark = any(map(is_file, kinds)), about.get("layout") == "xlsa17"
    if is_benchmark:
        stem = Path(str(about.get("features", ""))).stem
        if features not in (None, stem):
            raise DataError(
                f"the model was trained on the features {stem!r}; {features!r} cannot be mixed in"
            )
        features = stem
    attributes = "+".join(kinds) if kinds and (is_benchmark or from_files) else "att"
    try:
        data = load_dataset(name, root=root, features=features, attributes=attributes)
    except DataError as error:
        if not from_files:
            raise
        raise DataError(
            f"{error}; put the file with the class vectors there, or add classes with --text or "
            "--file"
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

    What the model doubts about its classes is said on stderr, once they are changed.

    Parameters
    ----------
    folder : Path
        The model folder.

    Yields
    ------
    GZSLClassifier
        The model as it is once nobody else changes it.
    """
    waiting = partial(note, f"waiting: another command is changing {folder}")
    # Of a folder that is not there, reading it says so better than locking it.
    with locked(folder, ModelFolderError, waiting) if folder.is_dir() else nullcontext():
        loaded = load_model(folder)
        with (
            progress_bar() if loaded.retrains_on_add else nullcontext() as progress,
            warnings.catch_warnings(record=True, action="always", category=ClassWarning) as doubts,
        ):
            yield loaded.on_progress(progress)
        loaded.on_progress(None)
    for doubt in doubts:
        note(f"warning: {doubt.message}")


# ---------------------------------------------------------------------- features, photos, texts
@dataclass(frozen=True)
class Items:
    """Features, and what they were made of.

    Parameters
    ----------
    names : tuple of str
        What to call each row: its photo, its text, or its number in a file of features.
    features : ndarray of shape (n, n_features)
        One row per item.
    unreadable : list of dict
        Items that were left out, ``file`` and ``reason`` of each.
    """

    names: tuple[str, ...]
    features: NDArray[Any]
    unreadable: list[dict[str, str]] = field(default_factory=list)

    def report(self) -> dict[str, Any]:
        """Return what JSON says about items that were left out."""
        return {"n_unreadable": len(self.unreadable), "unreadable": self.unreadable}


def item_reader(model: Any, options: ReaderOptions) -> ImageClassifier | TextClassifier:
    """Return a loaded model as one that reads the items it was trained on, photos or texts."""
    from hgkt.items import ImageClassifier, TextClassifier

    if not model.about_.get("text_encoder"):
        return ImageClassifier(model, options.device, options.weights)
    if options.weights is not None:
        raise DataError("--weights is for photos; this model reads texts")
    return TextClassifier(model, options.device)


def read_path(path: Path, model: Any, options: ReaderOptions) -> Items:
    """Read photos, a table of texts where the model reads texts, or a file of features."""
    from hgkt.data import read_features
    from hgkt.items import ImageClassifier, TextClassifier, read_text_table
    from hgkt.vision.images import IMAGE_SUFFIXES

    if path.is_dir() or path.suffix.lower() in IMAGE_SUFFIXES:
        return read_photos([path], ImageClassifier(model, options.device, options.weights))
    if model.about_.get("text_encoder") and path.suffix in (".csv", ".jsonl", ".ndjson"):
        reader = TextClassifier(model, options.device)
        return read_texts(read_text_table(path)["text"].tolist(), reader)
    rows = read_features(path, model.n_features_in_)
    return Items(tuple(f"row {number}" for number in range(len(rows))), rows)


def read_items(
    reader: ImageClassifier | TextClassifier, items: list[str], table: Path | None
) -> Items:
    """Return the features of photos, or of texts of the command line and of a table."""
    from hgkt.items import TextClassifier, read_text_table

    if isinstance(reader, TextClassifier):
        texts = [*items, *([] if table is None else read_text_table(table)["text"])]
        if not texts:
            raise DataError("say what to classify: texts, or --input FILE with a column text")
        return read_texts(texts, reader)
    if table is not None:
        raise DataError("--input is for texts; give photos and folders of photos as arguments")
    if not items:
        raise DataError("say what to classify: photos, or folders of photos")
    return read_photos([*map(Path, items)], reader)


def read_photos(paths: Sequence[Path], reader: ImageClassifier) -> Items:
    """Extract the features of images and of folders of images (of any depth)."""
    return extract_items(list_photos(paths), reader)


def list_photos(paths: Sequence[Path], label: str = "") -> list[ImageEntry]:
    """Return the images of files and folders, each once; say which files of folders are none."""
    from hgkt.vision import ImageEntry, find_images
    from hgkt.vision.listing import passed_over, passed_over_text

    files: dict[Path, None] = {}
    for path in paths:
        found = find_images(path) if path.is_dir() else [path]
        others = passed_over(path)
        if not found:
            why = f"; {passed_over_text(others)}" if others else ""
            raise DataError(f"{path} has no images{why}")
        if others:
            note(passed_over_text(others))
        files |= dict.fromkeys(found)
    return [ImageEntry(str(file), file, label) for file in files]


def extract_items(entries: Sequence[ImageEntry], reader: ImageClassifier) -> Items:
    """Extract the features of images; say which were left out, and why."""
    with progress_bar() as bar:
        made = reader.extract(entries, bar)
    unreadable = _note_left_out([(entry.id, reason) for entry, reason in made.unreadable], "image")
    return Items(tuple(entry.id for entry in made.entries), made.features, unreadable)


def read_texts(texts: Sequence[Any], reader: TextClassifier) -> Items:
    """Encode texts; what is no text or empty is left out, and said.

    Parameters
    ----------
    texts : sequence
        The texts.
    reader : TextClassifier
        What reads them.
    """
    kept = {n: text for n, text in enumerate(texts) if isinstance(text, str) and text.strip()}
    if not kept:
        raise DataError("all texts are empty; words are expected")
    empty = [(f"text {n}", f"text {n} is empty") for n in range(len(texts)) if n not in kept]
    unreadable = _note_left_out(empty, "text")
    with progress_bar() as bar:
        features = reader.encoder.encode([*kept.values()], bar).astype(np.float32)
    return Items(tuple(kept.values()), features, unreadable)


def _note_left_out(unreadable: Sequence[tuple[str, str]], noun: str) -> list[dict[str, str]]:
    """Say how many items were left out, and return what JSON says of them."""
    document = left_out(unreadable)
    for line in left_out_lines(document, noun, "; --json has all"):
        note(line)
    return document


# ---------------------------------------------------------------------- descriptions of classes
@dataclass
class NewClasses:
    """The options that describe classes: one by its name, those of a file or of a data set.

    Parameters
    ----------
    name
        Name of one new class.
    attributes
        Its attributes: "0.1,0.2,…", or @FILE that holds them.
    attribute : NAME=VALUE
        One of its attributes by name; repeatable, others are 0.
    text
        What it looks like, for a model trained on text; of several the mean is taken.
    parent : GROUP
        The group that the class lies in.
    file
        Many: .csv or .parquet with name and attribute columns, and maybe parent.
    from_data
        All unseen classes of a data set.
    """

    name: str | None = None
    attributes: str | None = None
    attribute: list[str] | None = None
    text: list[str] | None = None
    parent: str | None = None
    file: Path | None = None
    from_data: str | None = None
    root: Path | None = None

    def __post_init__(self) -> None:
        """Refuse options that do not go together."""
        if sum(value is not None for value in (self.name, self.file, self.from_data)) != 1:
            raise DataError("say which class: one of --name, --file or --from-data")
        described = self.attributes is not None or self.attribute or self.text or self.parent
        if self.name is None and described:
            raise DataError(
                "--attributes, --attribute, --text and --parent describe one class; give its --name"
            )
        if not all(text.strip() for text in self.text or ()):
            raise DataError(
                "--text is empty; say what the class looks like, or leave it out where the name "
                "says it all"
            )
        self._vector = None if self.attributes is None else read_vector(self.attributes)
        self._named = read_pairs(self.attribute) if self.attribute else None

    def table(self, model: Any) -> dict[Any, NDArray[np.float64]]:
        """Return the vectors by label, made as the model's own were."""
        from hgkt.data import read_attribute_file
        from hgkt.language import ClassDescription

        describer = describer_of(model)
        if self.name is not None:
            if not (self.attributes or self.attribute or self.text or describer.accepts_text):
                raise DataError(
                    "--name needs its attributes: either --attributes, or --attribute options"
                )
            said = ClassDescription(self.name, self._vector, self._named, self.text or None)
            table = {self.name: describer.vectors([said])[0]}
        elif self.file is not None:
            file = read_attribute_file(self.file, describer.attribute_names)
            describer.check_made_with(str(self.file), file.encoder, file.blocks, file.kinds)
            table = dict(zip(file.names, file.attributes.astype(np.float64), strict=True))
        else:
            table = _from_data(model, describer, str(self.from_data), self.root)
        return {label_of(model, key): row for key, row in table.items()}

    def keep_texts(self, model: Any, table: dict[Any, NDArray[np.float64]]) -> Any:
        """Have a model keep what was said of a class, for people to read; return the model."""
        from hgkt.language import keep_descriptions

        keep_descriptions(model, table, dict.fromkeys(table, self.text or ""))
        return model

    @property
    def moves_only(self) -> bool:
        """Whether a class is only to lie in another group."""
        described = (self.attributes, self.attribute, self.text)
        return self.parent is not None and all(value is None for value in described)

    def parents(self) -> dict[str, str]:
        """Return the groups of the classes, and of their groups, that have one."""
        from hgkt.items.tables import read_parents

        if self.name is not None:
            return {} if self.parent is None else {self.name: self.parent}
        return {} if self.file is None else read_parents(self.file)


def describer_of(model: Any) -> Describer:
    """Return what turns descriptions into the vectors of a model."""
    from hgkt.language import Describer

    return Describer(model.about_, model.class_attributes_.shape[1])


def _from_data(
    model: Any, describer: Describer, name: str, root: Path | None
) -> dict[str, NDArray[np.float64]]:
    """Return the vectors of a data set's unseen classes, made as the model's were."""
    dataset = load_matching(model, name, root, with_attributes=True)
    about, width = dataset.about, dataset.class_attributes.shape[1]
    if "encoder" in about or describer.accepts_text:
        blocks = about.get("attribute_blocks") or [width]
        kinds = about.get("attribute_kinds") or ["att"] * len(blocks)
        where = f"data set {dataset.name!r}"
        describer.check_made_with(where, about.get("encoder"), blocks, kinds)
    # Classes without rows came with the training.
    there = set(model.classes_.tolist()) & set(dataset.names(dataset.described_classes))
    table = dataset.attributes_of(dataset.unseen_classes)
    return {name: row for name, row in table.items() if name not in there}


def read_vector(text: str) -> NDArray[np.float64]:
    """Read ``"0.1, 0.2"``, or ``@FILE`` with the numbers as text, JSON list or .npy.

    Examples
    --------
    >>> read_vector("0.5, 1")
    array([0.5, 1. ])
    """
    source = text[1:] if text.startswith("@") else "--attributes"
    if text.startswith("@") and source.endswith(".npy"):
        from hgkt.data.arrays import read_npy

        values = read_npy(Path(source))
    else:
        if text.startswith("@"):
            with reading(source, "attributes"):
                text = Path(source).read_text(encoding="utf-8")
        try:
            values = np.array([float(word) for word in re.split(r"[\s,;\[\]]+", text) if word])
        except ValueError as error:
            sentence = f"{source}: {error}; numbers with commas between are expected"
            raise DataError(sentence) from None
    if values.ndim != 1 or values.dtype.kind not in "fiub" or not len(values):
        raise DataError(f"{source} must hold one vector of numbers; got shape {values.shape}")
    return values.astype(np.float64)


def read_pairs(pairs: list[str]) -> dict[str, Any]:
    """Read ``NAME=VALUE`` pairs; a name may hold an equals sign itself.

    Examples
    --------
    >>> read_pairs(["striped=1", "Hooves = 0.5"])
    {'striped': '1', 'Hooves': ' 0.5'}
    """
    values = {}
    for pair in pairs:
        name, equals, value = pair.rpartition("=")
        if not equals:
            raise DataError(f"--attribute expects NAME=VALUE; got {pair!r}")
        values[name.strip()] = value
    return values
