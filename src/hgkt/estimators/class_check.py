"""What would become of a class if it were added: classes it is like, losses, accuracy to expect.

`check_class` finds it, a `ClassCheck` holds it, and ``str(check)`` says it in sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hgkt._arrays import unit_rows
from hgkt._plain import plain
from hgkt.calibration import Costs
from hgkt.estimators.taxonomy import with_parents
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    from hgkt.estimators.base import GZSLClassifier
    from hgkt.estimators.class_comparison import NewClass

N_RIVALS = 5
N_LOSSES = 3
N_ATTRIBUTES = 2
MIN_HELD_OUT = 6
"""Of fewer held-out classes nothing can be said about the next one."""
_NEAREST = 3  # rivals that attributes are to tell a class from
_LOOKED_AT = 8  # attributes of which two are named
_LEAST_LOSS = 0.005
_WORTH_NAMING = 0.01
_N_NAMED = 3
_ROUGH = 0.3


@dataclass(frozen=True)
class Rival:
    """A known class that a new one would be confused with.

    Parameters
    ----------
    label : str or int
        The known class.
    share : float or None
        Share of the new class's images that would go to it; None where that is not known.
    similarity : float
        Cosine of the two attribute vectors.
    """

    label: Any
    share: float | None
    similarity: float


@dataclass(frozen=True)
class Loss:
    """A known class that would lose images to a new one.

    Parameters
    ----------
    label : str or int
        The known class.
    share : float
        Share of its images that are right now and would go to the new class.
    """

    label: Any
    share: float


@dataclass(frozen=True)
class TellingAttribute:
    """An attribute that would separate a class from its nearest rivals if it were known better.

    Parameters
    ----------
    position : int
        Place in the attribute vector.
    name : str or None
        Its name, where the model has names.
    weight : float
        How far the lead over the rivals moves with one deviation of the attribute, in scores.
    """

    position: int
    name: str | None
    weight: float


@dataclass(frozen=True)
class ClassCheck:
    """What `check_class` found. Shares and accuracies are fractions of one.

    Parameters
    ----------
    name : str, int or None
        The new class.
    empty : bool
        Whether its attributes are all zero; nothing else is told then.
    duplicates : tuple
        Known classes with the same attributes.
    rivals : tuple of Rival
        Known classes that it would be confused with, the strongest first.
    losses : tuple of Loss
        Known classes that would lose images to it.
    accuracy : float or None
        Share of its images that should be recognised among all classes.
    accuracy_range : tuple of (float, float) or None
        Where it should lie for eight of ten classes.
    n_held_out : int
        How many held-out classes that is learned from.
    rank_correlation : float or None
        Of expected and real accuracy over those (Spearman).
    variance : float or None
        Posterior variance of its mean, per unit of prior variance: 0 known, 1 nothing known.
    distance : float or None
        Share of the seen classes that lie nearer to the others than it does, by variance.
    attributes : tuple of TellingAttribute
        Attributes that would separate it most from its nearest rivals if they were known better.
    parent : str or None
        The group that it is to be in.
    strays : tuple of (label, parent)
        Its nearest known classes with their groups, where none of them lies in `parent`.
    costs : Costs or None
        What one more class costs the learned ones, on average.
    reasons : tuple of str
        Why something is not known.
    """

    name: Any = None
    empty: bool = False
    duplicates: tuple[Any, ...] = ()
    rivals: tuple[Rival, ...] = ()
    losses: tuple[Loss, ...] = ()
    accuracy: float | None = None
    accuracy_range: tuple[float, float] | None = None
    n_held_out: int = 0
    rank_correlation: float | None = None
    variance: float | None = None
    distance: float | None = None
    attributes: tuple[TellingAttribute, ...] = ()
    parent: str | None = None
    strays: tuple[tuple[Any, str | None], ...] = ()
    costs: Costs | None = None
    reasons: tuple[str, ...] = ()

    def elsewhere(self, n_rivals: int = N_RIVALS) -> float | None:
        """Return the share of its images that go to none of the first rivals; None if not known.

        Accuracy, the shares of these rivals and this share are one in all.
        """
        if self.accuracy is None:
            return None
        named = sum(rival.share or 0.0 for rival in self.rivals[:n_rivals])
        return max(0.0, 1.0 - self.accuracy - named)

    def sentences(self) -> list[str]:
        """Say it in plain sentences, the most important first."""
        parts = [
            _say_empty(self),
            _say_duplicates(self),
            _say_accuracy(self),
            _say_rivals(self),
            _say_losses(self),
            _say_costs(self),
            _say_distance(self),
            self.say_strays(),
            _say_attributes(self),
            *(reason[0].upper() + reason[1:] + "." for reason in self.reasons),
        ]
        return [part for part in parts if part]

    def say_strays(self) -> str:
        """Say that its nearest classes lie in other groups; empty where one lies in its own."""
        if not self.strays:
            return ""
        named = [str(n) if p is None else f"{n} (in {p})" for n, p in self.strays]
        one = len(named) == 1
        return (
            f"Its nearest known {'class is' if one else 'classes are'} {_listed(named)}: "
            f"{'it does not lie' if one else 'none of them lies'} in {self.parent}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and dicts, the sentences included."""
        found: dict[str, Any] = plain({**asdict(self), "sentences": self.sentences()})
        return found

    def __str__(self) -> str:
        return " ".join(self.sentences())


def check_class(
    model: GZSLClassifier,
    attributes: NDArray[np.float64],
    name: Any = None,
    parent: str | None = None,
) -> ClassCheck:
    """Check a class with good attributes (d,) against a fitted model.

    Parameters
    ----------
    model : GZSLClassifier
        Any method; only HGKTClassifier can tell more than duplicates and like classes.
    attributes : ndarray of shape (d,)
        The new class.
    name : str or int, optional
        Its name.
    parent : str, optional
        The group that it is to be in.
    """
    if parent is not None and name is not None:  # a group that cannot be is refused
        with_parents(model.parents_, {name: parent}, [*model.classes_.tolist(), name])
    if not np.any(attributes):
        return ClassCheck(name, empty=True, parent=parent)
    with np.errstate(all="ignore"):
        found = _checked(model, attributes, name)
    if not np.isfinite([r.similarity for r in found.rivals] + [found.variance or 0.0]).all():
        raise DataError(
            "the attributes are too large for this model; its scores would not be finite numbers"
        )
    return found if parent is None else _placed(model, found, parent)


def _placed(model: GZSLClassifier, check: ClassCheck, parent: str) -> ClassCheck:
    """Compare the group that a class is to be in with those of its nearest classes."""
    tree = model.taxonomy()
    names = tree.names.tolist()
    check = replace(check, parent=parent)
    if parent not in names:  # a group of its own: no class that it could be near to is there
        return check
    group, nodes = names.index(parent), [names.index(r.label) for r in check.rivals[:_NEAREST]]
    if not nodes or (tree.paths[nodes] == group).any():
        return check
    above = [None if node < 0 else names[node] for node in tree.parents[nodes].tolist()]
    return replace(check, strays=tuple(zip([names[n] for n in nodes], above, strict=True)))


def _checked(model: GZSLClassifier, attributes: NDArray[np.float64], name: Any) -> ClassCheck:
    costs = model.costs(model.n_added_, model.n_added_ + 1)
    check = ClassCheck(name, duplicates=tuple(model._table.twins(attributes)), costs=costs)
    comparison = model._compare_new(attributes)
    if comparison is None:
        reason = (
            f"{type(model).__name__} cannot tell how many images would go astray, or how far the "
            "class lies from what is known; HGKTClassifier can"
        )
        columns = _most_alike(model, attributes)
        rivals = _rivals(model, attributes, columns, [None] * len(columns))
        return replace(check, rivals=rivals, reasons=(reason,))
    return _measured(model, comparison, check)


def _measured(model: GZSLClassifier, comparison: NewClass, check: ClassCheck) -> ClassCheck:
    """Fill in what only a closed form can tell; classes are in the order of its tables."""
    separations, sharpness = comparison.separations(), comparison.sharpness
    nearest = np.argsort(separations, kind="stable")[:N_RIVALS]
    shares: list[float | None] = [None] * len(nearest)
    found: dict[str, Any] = {}
    if sharpness is None:
        found["reasons"] = (_why_no_accuracy(model),)
    else:
        astray = sharpness.odds(separations)
        share = 1.0 / (1.0 + astray.sum())
        accuracy = sharpness.accuracy(share, comparison.variance)
        shares = ((1.0 - accuracy) * astray[nearest] / max(astray.sum(), 1e-300)).tolist()
        low, high = (float(np.clip(accuracy + part, 0.0, 1.0)) for part in sharpness.residuals)
        losers, lost = comparison.losses(N_LOSSES)
        labels = _labels(model, losers)
        found |= {
            "accuracy": accuracy,
            "accuracy_range": (low, high),
            "n_held_out": sharpness.n_classes,
            "rank_correlation": sharpness.rank_correlation,
            "losses": tuple(
                Loss(label, share)
                for label, share in zip(labels, lost.tolist(), strict=True)
                if share >= _LEAST_LOSS
            ),
        }
    return replace(
        check,
        rivals=_rivals(model, comparison.attributes, nearest, shares),
        variance=comparison.variance,
        distance=comparison.percentile(),
        attributes=_telling(model, comparison, nearest[:_NEAREST]),
        **found,
    )


def _why_no_accuracy(model: GZSLClassifier) -> str:
    held_out = model._validation.held_out
    if held_out is None:
        return (
            "the accuracy to expect is not known, because no seen class was held out when the "
            "model was fitted: fit it with calibration='auto', or select on class folds"
        )
    n_classes = len(set(held_out.labels))
    if n_classes < MIN_HELD_OUT:
        return (
            f"the accuracy to expect is not known, because only {n_classes} seen classes could be "
            f"held out: {MIN_HELD_OUT} are needed"
        )
    return (
        "the accuracy to expect is not known, because that of held-out classes does not rise with "
        "how well they are separated from others"
    )


def _telling(
    model: GZSLClassifier, comparison: NewClass, nearest: NDArray[np.intp]
) -> tuple[TellingAttribute, ...]:
    places, names = attribute_names(model)
    equal = np.full(len(nearest), 1.0 / max(len(nearest), 1))
    moves = np.abs(comparison.sensitivities(nearest, equal)[places])
    order = np.argsort(-moves, kind="stable")
    best = order[:1].tolist()
    for place in order[1:_LOOKED_AT].tolist():
        if len(best) < N_ATTRIBUTES and not _says_the_same(model, places[[best[0], place]]):
            best.append(place)
    return tuple(
        TellingAttribute(int(places[i]), None if names is None else names[i], float(moves[i]))
        for i in best
        if moves[i] > 0
    )


def _says_the_same(model: GZSLClassifier, pair: NDArray[np.intp]) -> bool:
    """Say whether two attributes follow from each other, such as "tail" and "no tail"."""
    columns = model._table.seen_attributes[:, pair]
    columns = columns - columns.mean(axis=0)
    product, lengths = columns[:, 0] @ columns[:, 1], np.linalg.norm(columns, axis=0)
    return bool(abs(product) > 0.999 * lengths[0] * lengths[1])


def _most_alike(model: GZSLClassifier, attributes: NDArray[np.float64]) -> NDArray[np.intp]:
    table = model._table.attributes.array
    return np.argsort(-(unit_rows(table) @ attributes), kind="stable")[:N_RIVALS]


def _rivals(
    model: GZSLClassifier,
    attributes: NDArray[np.float64],
    rows: NDArray[np.intp],
    shares: list[float | None],
) -> tuple[Rival, ...]:
    table = unit_rows(model._table.attributes.array[rows])
    similarities = table @ unit_rows(attributes[None])[0]
    parts = zip(_labels(model, rows), shares, similarities.tolist(), strict=True)
    return tuple(Rival(*part) for part in parts)


def _labels(model: GZSLClassifier, rows: NDArray[np.intp]) -> list[Any]:
    labels: list[Any] = model._table.labels[rows].tolist()
    return labels


def attribute_names(model: GZSLClassifier) -> tuple[NDArray[np.intp], list[str] | None]:
    """Return the places of attributes that mean something one by one, and their names.

    The numbers that a sentence encoder makes of a text mean nothing one by one and are left out.
    The names are None where the model has none for these places.
    """
    about, n_attributes = getattr(model, "about_", {}), model._n_attributes
    widths = about.get("attribute_blocks") or [n_attributes]
    kinds = about.get("attribute_kinds") or ["att"] * len(widths)
    if len(kinds) != len(widths) or sum(widths) != n_attributes:
        widths, kinds = [n_attributes], ["att"]
    places = np.flatnonzero(np.repeat([kind != "text" for kind in kinds], widths))
    names = [str(name) for name in about.get("attribute_names") or ()]
    return places, names if names and len(names) == len(places) else None


# ---------------------------------------------------------------------- sentences
def _say_empty(check: ClassCheck) -> str:
    return "The attributes are all zero: they say nothing." if check.empty else ""


def _say_duplicates(check: ClassCheck) -> str:
    if not check.duplicates:
        return ""
    together = "the two" if len(check.duplicates) == 1 else "these classes"
    same = _listed(check.duplicates)
    return f"The attributes are the same as those of {same}: {together} cannot be told apart."


def _say_accuracy(check: ClassCheck) -> str:
    if check.accuracy is None or check.accuracy_range is None:
        return ""
    images = "its images" if check.name is None else f"the images of {check.name}"
    low, high = check.accuracy_range
    sentence = (
        f"About {_percent(check.accuracy)} of {images} should be recognised; for eight of ten "
        f"such classes it is between {_percent(low)} and {_percent(high)}."
    )
    if check.rank_correlation is not None and check.rank_correlation < _ROUGH:
        sentence += (
            f" That is rough: for the {check.n_held_out} seen classes that were held out, "
            "expectation and truth had little in common."
        )
    return sentence


def _say_rivals(check: ClassCheck) -> str:
    nearest = check.rivals[:_N_NAMED]
    if not nearest:
        return ""
    if check.accuracy is None:
        return f"Of the known classes, most like it: {_listed([r.label for r in nearest])}."
    shares = [(rival.label, rival.share or 0.0) for rival in nearest]
    worth = [(label, share) for label, share in shares if share >= _WORTH_NAMING]
    astray = 1.0 - check.accuracy
    if not worth:
        if astray < _WORTH_NAMING:
            return "No known class would get as much as 1 % of its images."
        return (
            f"The other {_percent(astray)} would be spread over many classes, none of which would "
            "get as much as 1 % of its images."
        )
    named = _listed([f"{label} ({_percent(share)})" for label, share in worth])
    rest = astray - sum(share for _, share in worth)
    if rest < _WORTH_NAMING:
        return f"The others would go to {named}."
    return f"Of the others, most would go to {named}, and {_percent(rest)} to further classes."


def _say_losses(check: ClassCheck) -> str:
    if check.accuracy is None:
        return ""
    named = [
        f"{_percent(loss.share)} of the images of {loss.label}"
        for loss in check.losses
        if loss.share >= _WORTH_NAMING
    ]
    if not named:
        return "No known class would lose as much as 1 % of its images to it."
    return f"It would take {_listed(named)}."


def _say_costs(check: ClassCheck) -> str:
    if check.costs is None:
        return ""
    sentence = check.costs.sentence(check.accuracy)
    return f"On average, {sentence}."


def _say_distance(check: ClassCheck) -> str:
    if check.distance is None:
        return ""
    if check.distance <= 0.0:
        return "It lies nearer to what is known than any seen class does to the others."
    if check.distance >= 1.0:
        return "It lies further from what is known than every seen class does from the others."
    return (
        f"It lies further from what is known than {_percent(check.distance)} of the seen classes "
        "do from the others."
    )


def _say_attributes(check: ClassCheck) -> str:
    if not check.attributes or check.duplicates:
        return ""
    rivals = _listed([rival.label for rival in check.rivals[:_N_NAMED]])
    if check.attributes[0].name is None:
        positions = _listed([attribute.position for attribute in check.attributes])
        noun = "attribute" if len(check.attributes) == 1 else "attributes"
        known = f"{noun} {positions} (counted from 0)"
    else:
        known = _listed([attribute.name for attribute in check.attributes])
    return f"Knowing {known} better would help most to tell it from {rivals}."


def _percent(share: float) -> str:
    return f"{100.0 * share:.0f} %"


def _listed(names: Sequence[object]) -> str:
    words = [str(name) for name in names]
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]
