"""γ: what it is to favour, and how much it must be for L seen and U added classes.

The law is offset + slope · ln(L / U); validation classes say what the two numbers are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt._validation import check_choice, check_number
from hgkt.calibration.curve import ScoredFold, SeenUnseenCurve, best_calibration, mean_accuracy
from hgkt.exceptions import DataError

# Shares of the seen and of the unseen classes of a fold that stay, and how often each is drawn.
_SHARES = ((1.0, 0.5), (0.5, 1.0), (1.0, 0.25), (0.25, 1.0))
_DRAWS = 4
_SLOPES = np.linspace(0.0, 1.0, 21)  # in deviations of the gap between best seen and best unseen
_N_OFFSETS = 512

FEW_CLASSES = 20
"""Of fewer seen classes each makes up so much that folds and comparisons are chosen with care."""

AUTO = "auto"
_ODDS = {"classes": 1.0, "learned": 0.1, "described": 10.0}
FAVOURS = ("balanced", *_ODDS)
"""What γ may favour, besides a number."""


@dataclass(frozen=True)
class Favour:
    """What γ is to make as good as can be: the accuracy that it maximises on validation classes.

    Parameters
    ----------
    value : {"classes", "learned", "described", "balanced"} or float, default="classes"
        "classes": the mean accuracy over all classes, learned and added ones; in "learned" an added
        class counts a tenth of a learned one, in "described" ten times as much. A number: the
        accuracy over rows, of which this share are of added classes, however many there are.
        "balanced": H, the harmonic mean of both groups' accuracies, which benchmarks report.
        Of fewer than 20 learned classes "classes" is the γ that is balanced for as many added as
        learned ones: the mean over so few hardly depends on γ, and its highest point would leave
        added classes without an answer by chance.

    Examples
    --------
    >>> Favour("classes").share(65, 16) == 16 / 81, Favour(0.1).share(65, 16)
    (True, 0.1)
    """

    value: str | float = "classes"

    def __post_init__(self) -> None:
        if isinstance(self.value, str):
            check_choice("favour", self.value, FAVOURS)
        else:
            check_number("favour", self.value, low=0, high=1, open_low=True, open_high=True)

    @classmethod
    def of(cls, calibration: Any) -> Favour | None:
        """Return what a parameter ``calibration`` asks for; None where it says γ itself."""
        if isinstance(calibration, Mapping) and set(calibration) == {"favour"}:
            return cls(calibration["favour"])
        if not isinstance(calibration, str):
            return None
        check_choice("calibration", calibration, (AUTO, *FAVOURS))
        return cls() if calibration == AUTO else cls(calibration)

    @property
    def follows_numbers(self) -> bool:
        """Whether γ depends on how many classes were added.

        Where every class is as frequent as every other Bayes' rule has no such term: the prior of
        a class is the same, however many there are.
        """
        return self.value not in _ODDS

    def share(self, n_seen: int, n_added: int) -> float:
        """Return the weight of rows of added classes; those of seen ones have the rest."""
        if isinstance(self.value, float | int):
            return float(self.value)
        if self.value == "balanced":
            return 0.5
        weight = _ODDS[str(self.value)] * n_added
        return weight / (n_seen + weight)


@dataclass(frozen=True)
class Calibration:
    """What is taken off the scores of seen classes, as a law of how many classes compete.

    Read scores as log-likelihoods times a temperature T. Where all classes are equally frequent,
    Bayes' rule takes off what their training images favour seen classes by, and the slope is
    zero. Where a share p of the rows is of added classes, a seen class has the prior (1 − p) / L
    and an added one p / U: T · ln(L / U) is taken off besides, and the more classes are added,
    the less a seen class pays. H asks that both accuracies be alike, so the slope it wants is
    smaller than T. Validation finds both numbers.

    Parameters
    ----------
    offset : float
        γ for as many added as seen classes.
    slope : float, default=0.0
        What γ changes by with ln(L / U). Zero: γ is `offset`, whatever is added.

    Examples
    --------
    >>> law = Calibration(offset=0.1, slope=0.2)
    >>> round(law.gamma(150, 50), 2), round(law.gamma(150, 1), 2)
    (0.32, 1.1)
    >>> Calibration.of(0.3).gamma(150, 1)
    0.3
    """

    offset: float = 0.0
    slope: float = 0.0

    @classmethod
    def of(cls, value: Any) -> Calibration:
        """Read a parameter ``calibration``: a number, or a mapping of `offset` and `slope`."""
        if isinstance(value, Calibration):
            return value
        if isinstance(value, Mapping):
            known = {field.name for field in fields(cls)}
            if not known >= set(value) or not value:
                raise DataError(
                    f"calibration has the keys {sorted(value)}; 'offset' and 'slope' are expected, "
                    "or 'favour' alone"
                )
            for name, number in value.items():
                check_number(f"calibration's {name}", number)
            return cls(**{name: float(number) for name, number in value.items()})
        check_number("calibration", value)
        return cls(float(value))

    def gamma(self, n_seen: int, n_added: int) -> float:
        """Return γ; before the first class is added it is that for one."""
        if self.slope == 0.0:
            return self.offset
        return self.offset + self.slope * math.log(max(n_seen, 1) / max(n_added, 1))

    def to_dict(self) -> dict[str, float]:
        """Return what `of` reads."""
        return asdict(self)


@dataclass(frozen=True)
class _Competition:
    """A curve, and of how many seen and unseen classes."""

    curve: SeenUnseenCurve
    n_seen: int
    n_unseen: int

    def shifted(self, slope: float) -> SeenUnseenCurve:
        """Return the curve over the offset instead of γ."""
        shift = slope * math.log(self.n_seen / self.n_unseen)
        return replace(self.curve, gammas=self.curve.gammas - shift)

    def share(self, favour: Favour) -> float | None:
        """Return the weight of rows of unseen classes; None where H is wanted."""
        return None if favour.value == "balanced" else favour.share(self.n_seen, self.n_unseen)


def fit_calibration(
    folds: Iterable[ScoredFold], random_state: int = 0, favour: Favour | None = None
) -> Calibration:
    """Find the law with the highest mean of what is favoured over folds of validation classes.

    Each fold speaks as it is, and with only a half or a quarter of its seen or of its unseen
    classes, drawn several times: that is where the slope shows.

    Parameters
    ----------
    folds : iterable of ScoredFold
        Read once; score matrices are not kept.
    random_state : int, default=0
        Seed of the draws.
    favour : Favour, optional
        By default "balanced": H.
    """
    favour = favour or Favour("balanced")
    rng = np.random.default_rng(random_state)
    competitions = [c for fold in folds for c in _competitions(fold, rng)]
    if favour == Favour() and competitions[0].n_seen + competitions[0].n_unseen < FEW_CLASSES:
        return Calibration(_best_law(competitions, Favour("balanced")).offset)
    return _best_law(competitions, favour)


def _best_law(competitions: Sequence[_Competition], favour: Favour) -> Calibration:
    slope = _best_slope(competitions, favour) if favour.follows_numbers else 0.0
    # Exact for the slope found, in the middle of the best plateau.
    offset, _ = best_calibration(
        [c.shifted(slope) for c in competitions], [c.share(favour) for c in competitions]
    )
    return Calibration(offset, slope)


def _competitions(fold: ScoredFold, rng: np.random.Generator) -> Iterator[_Competition]:
    n_seen, n_unseen = fold.rows.n_seen, fold.rows.n_unseen
    yield _Competition(fold.rows.curve(fold.scores), n_seen, n_unseen)
    for seen_share, unseen_share in _SHARES:
        n_left = max(min(2, n_seen), round(seen_share * n_seen))
        n_right = max(1, round(unseen_share * n_unseen))
        for _ in range(_DRAWS):
            seen = np.sort(rng.permutation(n_seen)[:n_left])
            unseen = n_seen + np.sort(rng.permutation(n_unseen)[:n_right])
            curve = _curve_among(fold, np.concatenate([seen, unseen]))
            if curve is not None:
                yield _Competition(curve, n_left, n_right)


def _curve_among(fold: ScoredFold, columns: NDArray[np.intp]) -> SeenUnseenCurve | None:
    """Return None where no row of one of the two groups is left."""
    curve = fold.rows.curve_among(fold.scores, columns)
    return curve if curve.seen[0] > 0 and curve.unseen[-1] > 0 else None


def _best_slope(competitions: Sequence[_Competition], favour: Favour) -> float:
    """Return the slope with the highest mean on a lattice of slopes and offsets."""
    gaps = np.concatenate([c.curve.gammas[1:] for c in competitions])
    if not len(gaps):
        return 0.0
    slopes = _SLOPES * gaps.std()
    lattice = np.linspace(np.quantile(gaps, 0.005), np.quantile(gaps, 0.995), _N_OFFSETS)
    found = np.zeros(len(slopes))
    for index, slope in enumerate(slopes):
        total = np.zeros(_N_OFFSETS)
        for competition in competitions:
            seen, unseen = competition.shifted(slope).at(lattice)
            total += mean_accuracy(seen, unseen, competition.share(favour))
        found[index] = total.max()
    return float(slopes[found.argmax()])
