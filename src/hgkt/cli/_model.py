"""What commands that open a model folder share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from hgkt._files import locked
from hgkt.cli._common import emit, note, say
from hgkt.exceptions import DataError, ModelFolderError

if TYPE_CHECKING:
    from hgkt.data import GZSLDataset
    from hgkt.estimators import GZSLClassifier

ModelOption = Annotated[
    Path, typer.Option("--model", help="Model folder, as `hgkt train` writes it.")
]


AmongOption = Annotated[
    str, typer.Option("--among", help="Candidates: all, seen, unseen, or classes a,b,c.")
]


def about_model(model: Any) -> dict[str, Any]:
    """Return what a loaded model was made with."""
    about: dict[str, Any] = getattr(model, "about_", {})
    return about


def label_of(model: GZSLClassifier, text: str) -> Any:
    """Turn text into a label of the kind the model has: a string or a number."""
    kind = model.seen_classes_.dtype.kind
    if kind not in "iuf":
        return text
    try:
        return float(text) if kind == "f" else int(text)
    except ValueError:
        raise DataError(f"the classes of this model are numbers; got {text!r}") from None


def candidates(model: GZSLClassifier, among: str) -> NDArray[np.intp]:
    """Return the columns of ``classes_`` that ``--among`` stands for."""
    return model.candidates(candidate_names(model, among))


def candidate_names(model: GZSLClassifier, among: str) -> str | list[Any]:
    """Return what ``--among`` stands for as `GZSLClassifier.candidates` takes it."""
    if among in ("all", "seen", "unseen"):
        return among
    # A class name may hold a comma, so the whole text is tried first.
    names = [among] if among in model.classes_.tolist() else among.split(",")
    return [label_of(model, name.strip()) for name in names]


def check_backbone(model: GZSLClassifier, about: Mapping[str, Any], name: str) -> None:
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
    own, other = about_model(model).get("backbone"), about.get("backbone")
    if own and other and own.get("sha256") != other.get("sha256"):
        raise DataError(
            f"the model was trained on features of {own['name']!r}; those of data set "
            f"{name!r} come from {other['name']!r} with other weights and cannot be mixed"
        )


def load_matching(
    model: GZSLClassifier,
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

    about = about_model(model)
    kinds = split_kinds(str(about.get("attributes") or "att"))
    wanted = [kind for kind in kinds if with_attributes or not is_file(kind)]
    from_files = [kind for kind in wanted if is_file(kind)]
    options: dict[str, Any] = {}
    if about.get("layout") == "xlsa17":
        stem = Path(str(about.get("features", ""))).stem
        if features is not None and features != stem:
            raise DataError(
                f"the model was trained on the features {stem!r}; {features!r} cannot be mixed in"
            )
        options = {"features": stem, "attributes": "+".join(wanted) or "att"}
    elif features is not None:
        options = {"features": features}
    if from_files:
        options["attributes"] = "+".join(wanted)
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
    from hgkt.estimators import load_model

    def waiting() -> None:
        note(f"waiting: another command is changing {folder}")

    # Of a folder that is not there, reading it says so better than locking it.
    with locked(folder, ModelFolderError, waiting) if folder.is_dir() else nullcontext():
        yield load_model(folder)


def report_change(
    verb: str,
    names: list[Any],
    model: GZSLClassifier,
    path: Path,
    as_json: bool,
    more: dict[str, Any] | None = None,
    how: str = "",
) -> None:
    """Say which classes of a folder were changed, and how.

    Parameters
    ----------
    verb : str
        What was done to them.
    names : list
        The classes.
    model : GZSLClassifier
        The model as it is now.
    path : Path
        Its folder.
    as_json : bool
        Whether one JSON document is wanted.
    more : dict, optional
        What else the document holds.
    how : str
        What else the sentence says.
    """
    count = len(model.classes_)
    shown = ", ".join(map(str, names[:5])) + ("…" if len(names) > 5 else "")
    noun = "class" if len(names) == 1 else "classes"
    sentence = f"{verb} {len(names)} {noun} ({shown}){how}; {path} has {count} classes now"
    document = {verb: names, "n_classes": count, "model": path, **(more or {})}
    emit(document, as_json, lambda: say(sentence))
