"""Compare a class that is not there yet with those that are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hgkt._arrays import unit_rows
from hgkt.estimators._rivalry import Newcomer
from hgkt.estimators._sharpness import MIN_HELD_OUT, odds
from hgkt.estimators.attribute_names import attribute_names
from hgkt.estimators.checking import ClassCheck, Loss, Rival, TellingAttribute
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    from hgkt.estimators.base import GZSLClassifier

N_RIVALS = 5
N_LOSSES = 3
N_ATTRIBUTES = 2
_NEAREST = 3  # rivals that attributes are to tell a class from
_LOOKED_AT = 8  # attributes of which two are named
_LEAST_LOSS = 0.005


def check_class(
    model: GZSLClassifier, attributes: NDArray[np.float64], name: Any = None
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
    """
    if not np.any(attributes):
        return ClassCheck(name, empty=True)
    with np.errstate(all="ignore"):
        found = _checked(model, attributes, name)
    if not np.isfinite([r.similarity for r in found.rivals] + [found.variance or 0.0]).all():
        raise DataError(
            "the attributes are too large for this model; its scores would not be finite numbers"
        )
    return found


def _checked(model: GZSLClassifier, attributes: NDArray[np.float64], name: Any) -> ClassCheck:
    check = ClassCheck(name, duplicates=tuple(model._acquaintance().twins(attributes)))
    newcomer = model._newcomer(attributes)
    if newcomer is None:
        reason = (
            f"{type(model).__name__} cannot tell how many images would go astray, or how far the "
            "class lies from what is known; HGKTClassifier can"
        )
        columns = _most_alike(model, attributes)
        rivals = _rivals(model, attributes, columns, [None] * len(columns))
        return replace(check, rivals=rivals, reasons=(reason,))
    return _measured(model, newcomer, check)


def _measured(model: GZSLClassifier, newcomer: Newcomer, check: ClassCheck) -> ClassCheck:
    """Fill in what only a closed form can tell; classes are in the order of its tables."""
    separations, sharpness = newcomer.separations(), newcomer.rivalry.sharpness
    nearest = np.argsort(separations, kind="stable")[:N_RIVALS]
    shares: list[float | None] = [None] * len(nearest)
    known: dict[str, Any] = {}
    if sharpness is None:
        known["reasons"] = (_why_no_accuracy(model),)
    else:
        astray = odds(separations, sharpness.beta)
        kept = 1.0 / (1.0 + astray.sum())
        accuracy = sharpness.accuracy(kept, newcomer.variance)
        shares = ((1.0 - accuracy) * astray[nearest] / max(astray.sum(), 1e-300)).tolist()
        low, high = (float(np.clip(accuracy + part, 0.0, 1.0)) for part in sharpness.residuals)
        losers, lost = newcomer.losses(N_LOSSES)
        labels = _labels(model, losers)
        known |= {
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
        rivals=_rivals(model, newcomer.attributes, nearest, shares),
        variance=newcomer.variance,
        distance=newcomer.percentile(),
        attributes=_telling(model, newcomer, nearest[:_NEAREST]),
        **known,
    )


def _why_no_accuracy(model: GZSLClassifier) -> str:
    held_out = model._held_out
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
    model: GZSLClassifier, newcomer: Newcomer, nearest: NDArray[np.intp]
) -> tuple[TellingAttribute, ...]:
    places, names = attribute_names(model)
    equal = np.full(len(nearest), 1.0 / max(len(nearest), 1))
    moves = np.abs(newcomer.sensitivities(nearest, equal)[places])
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
    columns = model._seen_attributes[:, pair] - model._seen_attributes[:, pair].mean(axis=0)
    product, lengths = columns[:, 0] @ columns[:, 1], np.linalg.norm(columns, axis=0)
    return bool(abs(product) > 0.999 * lengths[0] * lengths[1])


def _most_alike(model: GZSLClassifier, attributes: NDArray[np.float64]) -> NDArray[np.intp]:
    table = np.concatenate([model._seen_attributes, model._added_attributes.array])
    return np.argsort(-(unit_rows(table) @ attributes), kind="stable")[:N_RIVALS]


def _rivals(
    model: GZSLClassifier,
    attributes: NDArray[np.float64],
    rows: NDArray[np.intp],
    shares: list[float | None],
) -> tuple[Rival, ...]:
    n_seen = len(model.seen_classes_)
    table = np.array(
        [
            model._seen_attributes[row]
            if row < n_seen
            else model._added_attributes.array[row - n_seen]
            for row in rows.tolist()
        ]
    )
    similarities = unit_rows(table) @ unit_rows(attributes[None])[0]
    parts = zip(_labels(model, rows), shares, similarities.tolist(), strict=True)
    return tuple(Rival(*part) for part in parts)


def _labels(model: GZSLClassifier, rows: NDArray[np.intp]) -> list[Any]:
    """Return the labels of rows of the tables: seen classes first, then added ones."""
    labels: list[Any] = model.classes_[model._order.columns[rows]].tolist()
    return labels
