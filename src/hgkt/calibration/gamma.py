"""How much γ must be for so many seen and so many added classes: offset + slope · ln(L / U)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt._validation import check_number
from hgkt.calibration.curve import ScoredFold, SeenUnseenCurve, best_calibration
from hgkt.exceptions import DataError

# Shares of the seen and of the unseen classes of a fold that stay, and how often each is drawn.
_SHARES = ((1.0, 0.5), (0.5, 1.0), (1.0, 0.25), (0.25, 1.0))
_DRAWS = 4
_SLOPES = np.linspace(0.0, 1.0, 21)  # in deviations of the gap between best seen and best unseen
_N_OFFSETS = 512


@dataclass(frozen=True)
class Calibration:
    """What is taken off the scores of seen classes, as a law of how many classes compete.

    Read scores as log-likelihoods times a temperature T. Images of seen and of added classes count
    alike, so a seen class has the prior 1 / 2L and an added one 1 / 2U: Bayes' rule takes
    T · ln(L / U) off the seen classes, and what their training images favour them by. H asks
    besides that both accuracies be alike, so the slope it wants is smaller than T; validation
    finds it. The more classes are added, the less a seen class pays.

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
                    f"calibration has the keys {sorted(value)}; 'offset' and 'slope' are expected"
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

    def for_classes(self) -> Calibration:
        """Return γ for as many added as seen classes, whatever is added.

        That counts every class alike, not the two groups: a few added classes then do not take
        the rows of many seen ones.
        """
        return Calibration(self.offset)

    def to_dict(self) -> dict[str, float]:
        """Return what `of` reads."""
        return asdict(self)


@dataclass(frozen=True)
class _Competition:
    """A curve, and ln(L / U) of the classes it was made with."""

    curve: SeenUnseenCurve
    log_ratio: float

    def shifted(self, slope: float) -> SeenUnseenCurve:
        """Return the curve over the offset instead of γ."""
        return replace(self.curve, gammas=self.curve.gammas - slope * self.log_ratio)


def fit_calibration(folds: Iterable[ScoredFold], random_state: int = 0) -> Calibration:
    """Find the law with the highest mean H over folds of validation classes.

    Each fold speaks as it is, and with only a half or a quarter of its seen or of its unseen
    classes, drawn several times: that is where the slope shows.

    Parameters
    ----------
    folds : iterable of ScoredFold
        Read once; score matrices are not kept.
    random_state : int, default=0
        Seed of the draws.
    """
    rng = np.random.default_rng(random_state)
    competitions = [c for fold in folds for c in _competitions(fold, rng)]
    slope = _best_slope(competitions)
    # Exact for the slope found, in the middle of the best plateau.
    offset, _ = best_calibration([c.shifted(slope) for c in competitions])
    return Calibration(offset, slope)


def _competitions(fold: ScoredFold, rng: np.random.Generator) -> Iterator[_Competition]:
    n_seen, n_unseen = fold.rows.n_seen, fold.rows.n_unseen
    yield _Competition(fold.rows.curve(fold.scores), math.log(n_seen / n_unseen))
    for seen_share, unseen_share in _SHARES:
        n_left = max(min(2, n_seen), round(seen_share * n_seen))
        n_right = max(1, round(unseen_share * n_unseen))
        for _ in range(_DRAWS):
            seen = np.sort(rng.permutation(n_seen)[:n_left])
            unseen = n_seen + np.sort(rng.permutation(n_unseen)[:n_right])
            curve = _curve_among(fold, np.concatenate([seen, unseen]))
            if curve is not None:
                yield _Competition(curve, math.log(n_left / n_right))


def _curve_among(fold: ScoredFold, columns: NDArray[np.intp]) -> SeenUnseenCurve | None:
    """Return None where no row of one of the two groups is left."""
    curve = fold.rows.curve_among(fold.scores, columns)
    return curve if curve.seen[0] > 0 and curve.unseen[-1] > 0 else None


def _best_slope(competitions: Sequence[_Competition]) -> float:
    """Return the slope with the highest mean H on a lattice of slopes and offsets."""
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
            total += np.divide(
                2 * seen * unseen, seen + unseen, out=np.zeros_like(seen), where=seen + unseen > 0
            )
        found[index] = total.max()
    return float(slopes[found.argmax()])
