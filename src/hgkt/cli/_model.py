"""What commands that open a model folder share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hgkt.cli._common import log
from hgkt.exceptions import DataError, ModelFolderError

if TYPE_CHECKING:
    from hgkt.data import GZSLDataset
    from hgkt.estimators import GZSLClassifier

ModelOption = Annotated[
    Path, typer.Option("--model", help="Model folder, as `hgkt train` writes it.")
]
TopOption = Annotated[int, typer.Option("--top", min=1, help="How many classes to show.")]


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
    from hgkt.data.attribute_files import is_file, split_kinds

    about = about_model(model)
    made = str(about.get("features", ""))
    kinds = split_kinds(str(about.get("attributes") or "att"))
    from_files = [kind for kind in kinds if is_file(kind)]
    own = [kind for kind in kinds if not is_file(kind)]
    options: dict[str, Any] = {}
    if about.get("layout") == "xlsa17":
        stem = Path(made).stem
        if features is not None and features != stem:
            raise DataError(
                f"the model was trained on the features {stem!r}; {features!r} cannot be mixed in"
            )
        options = {"features": stem, "attributes": "+".join(own) or "att"}
    elif features is not None:
        options = {"features": features}
    if from_files and with_attributes:
        options["attributes"] = "+".join(kinds)
    try:
        data = load_dataset(name, root=root, **options)
    except DataError as error:
        if not (from_files and with_attributes):
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
def locked(folder: Path) -> Iterator[None]:
    """Hold a model folder for a change, so that two commands at once lose none of theirs.

    The lock is on a file beside the folder, which is exchanged as a whole; it is gone afterwards.

    Parameters
    ----------
    folder : Path
        The model folder.
    """
    if not folder.is_dir():  # reading it says so better
        yield
        return
    place = folder.resolve()
    path = place.with_name(f".{place.name}.lock")
    handle = _acquire(path, folder)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


def _acquire(path: Path, folder: Path) -> int:
    """Open and lock `path`, waiting for whoever holds it."""
    try:
        import fcntl
    except ImportError:  # no such locks on Windows: there one command at a time
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o644)

    while True:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise ModelFolderError(f"{folder} cannot be changed: {error.strerror}") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sentence = f"waiting: another command is changing {folder}"
            log.print(sentence, soft_wrap=True, markup=False)
            fcntl.flock(handle, fcntl.LOCK_EX)
        # Whoever held it before has removed the file: a lock on that one keeps nobody out.
        try:
            if os.fstat(handle).st_ino == path.stat().st_ino:
                return handle
        except FileNotFoundError:
            pass
        os.close(handle)
