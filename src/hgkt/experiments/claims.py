"""What the paper claims, and how a claim is held against the results of a run."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hgkt.experiments.blocks import Metric, Outcome, Slot, number_text
from hgkt.experiments.plan import DataSpec
from hgkt.experiments.rows import rows_of
from hgkt.experiments.tables import difference_of

# Where a record has the figures that claims compare.
_PATHS: dict[str, Metric] = {"H": "H", "H_uncalibrated": ("uncalibrated", "H")}
_PATHS |= {"zsl": ("by_zsl", "zsl"), "own_space": ("own_space",)}


@dataclass(frozen=True)
class Finding:
    """One comparison: a figure of ours with that of the best rival on one data set.

    Parameters
    ----------
    data : str
        The data set.
    ours, theirs : float
        The two figures.
    rival : str
        Whose the second one is.
    low, high : float
        Between which bounds the difference lies.
    """

    data: str
    ours: float
    theirs: float
    rival: str
    low: float
    high: float

    @property
    def holds(self) -> bool | None:
        """Whether ours is higher; None where the bounds include 0."""
        if self.low > 0:
            return True
        return False if self.high < 0 else None

    def __str__(self) -> str:
        gap, *ends = (
            number_text(n, "+.1f") for n in (self.ours - self.theirs, self.low, self.high)
        )
        within = f" ({' to '.join(ends)})" if self.low < self.high else ""
        return (
            f"{self.data}: {self.ours:.1f} against {self.theirs:.1f} of {self.rival}, {gap}{within}"
        )


@dataclass(frozen=True)
class Judgement:
    """What became of a claim here.

    Parameters
    ----------
    here : tuple of str
        The numbers, one line per data set.
    holds : str
        "yes", "no", "undecided", on which data sets, or "not run".
    keys : tuple of str
        Cells that it was made from.
    """

    here: tuple[str, ...]
    holds: str
    keys: tuple[str, ...] = ()


NOT_RUN = Judgement((), "not run")


@dataclass(frozen=True)
class PairedClaim:
    """The claim that one setting has a higher figure than the best of some others.

    It holds on a data set where the 95 % interval of the paired difference, over test classes and
    seeds, lies above 0. Figures of one run each are compared as they stand.

    Parameters
    ----------
    sentence, paper : str
        The claim, and what the paper says, with its numbers; empty where the claim is ours.
    metric : {"H", "H_uncalibrated", "zsl", "own_space"}
        The figure.
    ours : sequence of str
        Slot of the setting, after the name of the data set.
    rivals : mapping of str to sequence of str, optional
        The settings to beat, slots by label; by default all methods but the paper's.
    """

    sentence: str
    paper: str
    metric: str
    ours: Sequence[str]
    rivals: Mapping[str, Sequence[str]] | None = None

    def slots(self, outcome: Outcome, data: DataSpec) -> tuple[Slot, dict[str, Slot]]:
        """Return where the setting and, by label, those to beat are on a data set."""
        others = {row.label: [row.name] for row in rows_of(outcome.context) if not row.ours}
        rivals = others if self.rivals is None else self.rivals
        return (data.name, *self.ours), {label: (data.name, *s) for label, s in rivals.items()}

    def judge(self, outcome: Outcome) -> Judgement:
        """Compare on every data set."""
        found: list[Finding] = []
        keys: list[str] = []
        for data in outcome.context.data:
            own, rivals = self.slots(outcome, data)
            level = outcome.value(own, _PATHS[self.metric]).mean
            figures = {n: outcome.value(s, _PATHS[self.metric]).mean for n, s in rivals.items()}
            ran = {label: figure for label, figure in figures.items() if figure is not None}
            if level is not None and ran:
                best = max(ran, key=lambda label: ran[label])
                low, high = _bounds(outcome, own, rivals[best], self.metric)
                found.append(Finding(data.name, level, ran[best], best, low, high))
                keys += outcome.keys(own, rivals[best])
        return judged(found, keys)


def _bounds(outcome: Outcome, first: Slot, second: Slot, metric: str) -> tuple[float, float]:
    """Return the bounds of the difference: paired, or by the deviations over seeds.

    Records of earlier versions have no accuracies per class, so that nothing can be paired.
    """
    paired = difference_of(outcome.by_seed(first), outcome.by_seed(second), metric)
    if paired is not None:
        return paired.low, paired.high
    ours, theirs = (outcome.value(slot, _PATHS[metric]) for slot in (first, second))
    difference = (ours.mean or 0.0) - (theirs.mean or 0.0)
    spread = max(ours.deviation or 0.0, theirs.deviation or 0.0)
    return difference - spread, difference + spread


def judged(found: Sequence[Finding], keys: Sequence[str]) -> Judgement:
    """Sum comparisons up.

    Examples
    --------
    >>> findings = [Finding("CUB", 40.0, 35.0, "DEM", 2.0, 8.0)]
    >>> findings += [Finding("SUN", 9.0, 9.0, "DEM", -1.0, 1.0)]
    >>> judged(findings[:1], ()).here
    ('CUB: 40.0 against 35.0 of DEM, +5.0 (+2.0 to +8.0)',)
    >>> judged(findings, ()).holds
    'yes on CUB; undecided on SUN'
    """
    if not found:
        return NOT_RUN
    words = {True: "yes", False: "no", None: "undecided"}
    sets: dict[str, list[str]] = {}
    for finding in found:
        sets.setdefault(words[finding.holds], []).append(finding.data)
    holds = next(iter(sets))
    if len(sets) > 1:
        found_words = [word for word in words.values() if word in sets]
        holds = "; ".join(f"{word} on {', '.join(sets[word])}" for word in found_words)
    return Judgement(tuple(map(str, found)), holds, tuple(dict.fromkeys(keys)))


@dataclass(frozen=True)
class CalibrationClaim:
    """The claim that the calibration chosen on validation classes raises H."""

    sentence: str = "A calibration γ chosen on validation classes raises H."
    paper: str = ""

    def judge(self, outcome: Outcome) -> Judgement:
        """Count the methods and data sets where it does."""
        rows, sets = rows_of(outcome.context), outcome.context.data
        slots = [(data.name, row.name) for row in rows for data in sets]
        pairs = [
            (after.mean, before.mean)
            for slot in slots
            if (after := outcome.value(slot, ("calibrated", "H"))).mean is not None
            and (before := outcome.value(slot, ("uncalibrated", "H"))).mean is not None
        ]
        if not pairs:
            return NOT_RUN
        n_raised = sum(after > before for after, before in pairs)
        n_lowered = sum(after < before for after, before in pairs)
        here = (
            f"H rises in {n_raised} and falls in {n_lowered} of {len(pairs)} pairs of method and "
            "data set"
        )
        holds = "yes" if n_raised == len(pairs) else f"in {n_raised} of {len(pairs)}"
        return Judgement((here,), holds if n_raised else "no", outcome.keys(*slots))


Claim = PairedClaim | CalibrationClaim


def _read_claims() -> dict[str, Sequence[Claim]]:
    text = Path(__file__).with_name("claims.toml").read_text(encoding="utf-8")
    claims = tomllib.loads(text)
    return {name: [PairedClaim(**claim) for claim in found] for name, found in claims.items()}


CLAIMS: Mapping[str, Sequence[Claim]] = {
    **_read_claims(),
    "ablation-calibration": (CalibrationClaim(),),
}
"""Claims by the name of the experiment that tests them; others test none."""
