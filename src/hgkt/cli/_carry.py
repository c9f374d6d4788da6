"""Classes that were added to a model, taken along to the one that replaces it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hgkt.cli._inputs import about_model
from hgkt.cli._output import note
from hgkt.exceptions import DataError, ModelFolderError

if TYPE_CHECKING:
    from hgkt.estimators import GZSLClassifier
    from hgkt.statistics import ExampleSums


@dataclass(frozen=True)
class Carried:
    """What became of the added classes of an old model.

    Parameters
    ----------
    names : tuple
        Those that were added to the new one.
    left : tuple
        Those that could not be.
    reason : str
        Why not, in a clause.
    """

    names: tuple[Any, ...] = ()
    left: tuple[Any, ...] = ()
    reason: str = ""


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
    """Add the added classes of one model to another, where their attributes fit.

    Those that have grown grow again, where both models read the same features.

    Parameters
    ----------
    old : GZSLClassifier
        The model that is replaced.
    new : GZSLClassifier
        The model to add them to; classes that it has already are passed over.
    about : dict
        What the new one was made with.
    where : Path
        The folder of the old one, for messages.
    """
    from hgkt.confidence.samples import SEEN
    from hgkt.language.describer import Describer

    known = set(new.classes_.tolist())
    table = dict(zip(old.classes_.tolist(), old.class_attributes_, strict=True))
    came = old.classes_[old.class_groups() != SEEN].tolist()
    added = {n: table[n] for n in came if n not in known}
    if not added:
        return Carried()
    made = about_model(old)
    width = old.class_attributes_.shape[1]
    blocks = made.get("attribute_blocks") or [width]
    kinds = made.get("attribute_kinds") or ["att"] * len(blocks)
    names, now = made.get("attribute_names"), about.get("attribute_names")
    try:
        describer = Describer(about, new.class_attributes_.shape[1])
        describer.check_made_with(str(where), made.get("encoder"), blocks, kinds)
        if names and now and list(names) != list(now):
            raise DataError(f"{where} has other attributes, or in another order")
        new.add_classes(added)
    except DataError as error:
        return Carried(left=tuple(added), reason=str(error))
    if old.can_grow:
        told = [(made.get(key), about.get(key)) for key in ("backbone", "features")]
        same = all(before == now for before, now in told if before and now)
        sums = {n: each for n, each in old.kept_examples().items() if n in added}
        _grow_again(new, sums, same)
    return Carried(names=tuple(added))


def _grow_again(model: Any, examples: dict[Any, ExampleSums], same_features: bool) -> None:
    """Let carried classes learn from the sums of their examples, or say why they do not."""
    if not examples:
        return
    try:
        if not same_features:
            raise DataError("the model reads other features now")
        model.grow(examples)
    except DataError as error:
        shown = ", ".join(map(str, examples))
        note(f"what {shown} learned from examples is not carried along: {error}")
