"""A check of a class in plain sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hgkt.estimators.checking import ClassCheck

_WORTH_NAMING = 0.01
_N_NAMED = 3
_ROUGH = 0.3


def sentences_of(check: ClassCheck) -> list[str]:
    """Return the sentences of a check, the most important first."""
    parts = [
        _empty(check),
        _duplicates(check),
        _accuracy(check),
        _rivals(check),
        _losses(check),
        _distance(check),
        _attributes(check),
        *(reason[0].upper() + reason[1:] + "." for reason in check.reasons),
    ]
    return [part for part in parts if part]


def _empty(check: ClassCheck) -> str:
    return "The attributes are all zero: they say nothing." if check.empty else ""


def _duplicates(check: ClassCheck) -> str:
    if not check.duplicates:
        return ""
    together = "the two" if len(check.duplicates) == 1 else "these classes"
    same = _listed(check.duplicates)
    return f"The attributes are the same as those of {same}: {together} cannot be told apart."


def _accuracy(check: ClassCheck) -> str:
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


def _rivals(check: ClassCheck) -> str:
    nearest = check.rivals[:_N_NAMED]
    if not nearest:
        return ""
    if check.accuracy is None:
        return f"Of the known classes, most like it: {_listed([r.label for r in nearest])}."
    shares = [(rival.label, rival.share or 0.0) for rival in nearest]
    named = [f"{label} ({_percent(share)})" for label, share in shares if share >= _WORTH_NAMING]
    if not named:
        return "No known class would get as much as 1 % of its images."
    return f"Of the others, most would go to {_listed(named)}."


def _losses(check: ClassCheck) -> str:
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


def _distance(check: ClassCheck) -> str:
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


def _attributes(check: ClassCheck) -> str:
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
