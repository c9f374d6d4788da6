"""What an explanation says, as small records."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Contribution:
    """A seen class and its weight.

    Parameters
    ----------
    label : str or int
        The seen class.
    weight : float
        How much of it is in what is explained; negative where it pushes away.
    """

    label: Any
    weight: float


@dataclass(frozen=True)
class ClassExplanation:
    """From which seen classes a class was made.

    Parameters
    ----------
    label : str or int
        The class.
    seen : bool
        Whether it was learned from instances.
    sources : tuple of Contribution
        Seen classes, the strongest first. In the closed form all of them, and Σ weight·(v_c − m)W
        is the embedding; in the network its neighbours in the graph, each with its share.
    """

    label: Any
    seen: bool
    sources: tuple[Contribution, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and dicts."""
        return asdict(self)


@dataclass(frozen=True)
class PredictionExplanation:
    """Why an instance was given its class.

    Parameters
    ----------
    label : str or int
        The class predicted.
    score : float
        Its score.
    margin : float
        Score minus that of the first runner-up.
    runner_ups : tuple of Contribution
        The next classes with their scores.
    pulls : tuple of Contribution
        Seen classes behind the predicted one and what each adds to its score; in the closed form
        all pulls (and the calibration of a seen class) sum to the score.
    """

    label: Any
    score: float
    margin: float
    runner_ups: tuple[Contribution, ...]
    pulls: tuple[Contribution, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and dicts."""
        return asdict(self)
