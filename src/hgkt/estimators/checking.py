"""What would become of a class if it were added: rivals, losses, the accuracy to expect."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from hgkt._plain import plain
from hgkt.estimators._check_sentences import sentences_of


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
    reasons: tuple[str, ...] = ()

    def sentences(self) -> list[str]:
        """Say it in plain sentences, the most important first."""
        return sentences_of(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and dicts, the sentences included."""
        found: dict[str, Any] = plain({**asdict(self), "sentences": self.sentences()})
        return found

    def __str__(self) -> str:
        return " ".join(self.sentences())
