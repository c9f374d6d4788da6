"""What becomes of a model that a new one replaces, and of the classes that were added to it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hgkt.cli._common import note
from hgkt.exceptions import ModelFolderError
from hgkt.serving import transfer
from hgkt.serving.transfer import Carried

if TYPE_CHECKING:
    from hgkt.estimators import GZSLClassifier


def check_replaced(path: Path, overwrite: bool, carry: bool) -> GZSLClassifier | None:
    """Refuse a place for a model that is taken; return the model whose classes are to be carried.

    Parameters
    ----------
    path : Path
        Where the new model is to be.
    overwrite, carry : bool
        Whether a model that is there may be replaced, and whether its classes are taken along.
    """
    from hgkt.estimators import load_model
    from hgkt.estimators.model_folder import check_model_place

    check_model_place(path)
    if not (path.is_dir() and any(path.iterdir())):
        return None
    if carry:
        old: GZSLClassifier = load_model(path)
        return old
    if not overwrite:
        raise ModelFolderError(
            f"{path} holds a model already; --overwrite replaces it and drops the classes that "
            "were added to it, --carry-classes replaces it and keeps them"
        )
    return None


def carry_classes(old: GZSLClassifier, new: Any, about: dict[str, Any], where: Path) -> Carried:
    """Add the added classes of one model to another, and say what could not go along."""
    carried = transfer.carry_classes(old, new, about, where)
    for line in carried.notes:
        note(line)
    return carried
