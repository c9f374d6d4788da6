"""What the paper claims, and how a claim is held against the results of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from hgkt.experiments.blocks import Metric, Outcome, Slot, Value
from hgkt.experiments.plan import DataSpec
from hgkt.experiments.rows import DEFAULT, PAPER, MethodRow, rows_of
from hgkt.experiments.tables import difference_of

# Where a record has the figures that `paired_difference` compares.
_PATHS: Mapping[str, Metric] = {
    "H": "H",
    "H_uncalibrated": ("uncalibrated", "H"),
    "zsl": ("by_zsl", "zsl"),
}
Rivals = Callable[[Outcome, DataSpec], Mapping[str, Slot]]
"""``rivals(outcome, data)`` returns the settings to beat: slots by label."""


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
        within = f" ({_signed(self.low)} to {_signed(self.high)})" if self.low < self.high else ""
        numbers = f"{self.ours:.1f} against {self.theirs:.1f}"
        return f"{self.data}: {numbers} of {self.rival}, {_signed(self.ours - self.theirs)}{within}"


def _signed(number: float) -> str:
    """Return a difference with its sign, a true minus, and none before zero."""
    text = f"{number:+.1f}".replace("-", "−")
    return "0.0" if text[1:] == "0.0" else text


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


class Claim(Protocol):
    """Something that can be held against the results of one experiment."""

    @property
    def sentence(self) -> str:
        """The claim."""
        ...

    @property
    def paper(self) -> str:
        """What the paper says, with its numbers; empty where the claim is ours."""
        ...

    def judge(self, outcome: Outcome) -> Judgement:
        """Hold the claim against what ran."""
        ...


@dataclass(frozen=True)
class PairedClaim:
    """The claim that one setting has a higher figure than the best of some others.

    It holds on a data set where the 95 % interval of the paired difference, over test classes and
    seeds, lies above 0.

    Parameters
    ----------
    sentence, paper : str
        The claim, and what the paper says.
    metric : {"H", "H_uncalibrated", "zsl"}
        The figure.
    ours : callable
        Slot of the setting on a data set.
    rivals : callable
        The settings to beat.
    """

    sentence: str
    paper: str
    metric: str
    ours: Callable[[DataSpec], Slot]
    rivals: Rivals

    def judge(self, outcome: Outcome) -> Judgement:
        """Compare on every data set."""
        found: list[Finding] = []
        keys: list[str] = []
        for data in outcome.context.data:
            rivals = self.rivals(outcome, data)
            means = {
                label: value.mean
                for label, slot in rivals.items()
                if (value := outcome.value(slot, _PATHS[self.metric])).mean is not None
            }
            own = outcome.value(self.ours(data), _PATHS[self.metric])
            if own.mean is None or not means:
                continue
            best = max(means, key=lambda label: means[label])
            slots = (self.ours(data), rivals[best])
            low, high = _bounds(outcome, *slots, self.metric)
            found.append(Finding(data.name, own.mean, means[best], best, low, high))
            keys += outcome.keys(*slots)
        return judged(found, keys)


def _bounds(outcome: Outcome, first: Slot, second: Slot, metric: str) -> tuple[float, float]:
    """Return the bounds of the difference: paired, or by the deviations over seeds.

    Records of earlier versions have no accuracies per class, so that nothing can be paired.
    """
    ours, theirs = ({r.cell.seed: r.values for r in outcome.good(s)} for s in (first, second))
    paired = difference_of(ours, theirs, metric)
    if paired is not None:
        return paired.low, paired.high
    values: list[Value] = [outcome.value(slot, _PATHS[metric]) for slot in (first, second)]
    difference = (values[0].mean or 0.0) - (values[1].mean or 0.0)
    spread = max(value.deviation or 0.0 for value in values)
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
        there = [word for word in words.values() if word in sets]
        holds = "; ".join(f"{word} on {', '.join(sets[word])}" for word in there)
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


@dataclass(frozen=True)
class ClusterClaim:
    """The claim that more unseen classes are embedded in their own cluster than by a rival.

    Parameters
    ----------
    sentence, paper : str
        The claim, and what the paper says.
    ours, rival : str
        Names of rows.
    label : str
        Of the rival.
    """

    sentence: str
    paper: str
    ours: str
    rival: str
    label: str

    def judge(self, outcome: Outcome) -> Judgement:
        """Compare the shares on every data set; they come from one run each."""
        found: list[Finding] = []
        for data in outcome.context.data:
            slots = [(data.name, name) for name in (self.ours, self.rival)]
            ours, theirs = (outcome.value(slot, ("own_space",)).mean for slot in slots)
            if ours is not None and theirs is not None:
                gap = ours - theirs
                found.append(Finding(data.name, ours, theirs, self.label, gap, gap))
        return judged(found, outcome.keys(*outcome.plan))


def _row(row: MethodRow) -> Callable[[DataSpec], Slot]:
    return lambda data: (data.name, row.name)


def _other_methods(outcome: Outcome, data: DataSpec) -> Mapping[str, Slot]:
    rows = [row for row in rows_of(outcome.context) if not row.ours]
    return {row.label: (data.name, row.name) for row in rows}


def _dem(outcome: Outcome, data: DataSpec) -> Mapping[str, Slot]:
    return {"DEM": (data.name, "dem")}


def _variant(word: str) -> Callable[[DataSpec], Slot]:
    return lambda data: (data.name, PAPER.name, PAPER.label, word)


def _variants(*words: str) -> Callable[[Outcome, DataSpec], Mapping[str, Slot]]:
    return lambda outcome, data: {f"“{word}”": _variant(word)(data) for word in words}


CLAIMS: Mapping[str, Sequence[Claim]] = {
    "table-zsl": (
        PairedClaim(
            "The paper's network has the highest accuracy among unseen classes.",
            "Yes on four of five sets: SUN 62.1, AWA1 69.1, AWA2 68.9, aPY 41.5; fourth on CUB.",
            "zsl",
            _row(PAPER),
            _other_methods,
        ),
        PairedClaim(
            "The closed form has the highest accuracy among unseen classes.",
            "",
            "zsl",
            _row(DEFAULT),
            _other_methods,
        ),
    ),
    "table-gzsl": (
        PairedClaim(
            "The paper's network has the highest H, without calibration.",
            "Yes on all five sets (SUN 27.7, CUB 34.9, AWA1 53.6, AWA2 52.7, aPY 29.7).",
            "H_uncalibrated",
            _row(PAPER),
            _other_methods,
        ),
        PairedClaim(
            "The paper's network has a higher H than DEM, its key baseline, without calibration.",
            "Yes: by 10.3 on aPY, 6.3 on AWA1, 7.6 on AWA2.",
            "H_uncalibrated",
            _row(PAPER),
            _dem,
        ),
        PairedClaim(
            "The closed form has the highest H, every method with the γ chosen for it.",
            "",
            "H",
            _row(DEFAULT),
            _other_methods,
        ),
    ),
    "ablation-intra": (
        PairedClaim(
            "The relation within classes raises H.",
            "Yes: CUB 34.1 to 34.9, AWA1 49.1 to 53.6, AWA2 50.7 to 52.7.",
            "H_uncalibrated",
            _variant("complete graph"),
            _variants("none"),
        ),
    ),
    "ablation-inter": (
        PairedClaim(
            "The relation between classes raises H by a large margin.",
            "Yes: CUB 32.7 to 34.9, AWA1 46.9 to 53.6, AWA2 39.6 to 52.7.",
            "H_uncalibrated",
            _variant("kNN"),
            _variants("none"),
        ),
    ),
    "ablation-selection": (
        PairedClaim(
            "Representatives near the Wasserstein barycenter give a higher H than random ones.",
            "Yes: random ones cause a significant drop (a figure without numbers).",
            "H_uncalibrated",
            _variant("Wasserstein barycenter"),
            _variants("random"),
        ),
        PairedClaim(
            "They give a higher H than those near the Euclidean mean.",
            "Yes (a figure without numbers).",
            "H_uncalibrated",
            _variant("Wasserstein barycenter"),
            _variants("Euclidean barycenter"),
        ),
    ),
    "ablation-calibration": (CalibrationClaim(),),
    "figure-tsne": (
        ClusterClaim(
            "The network embeds more unseen classes in their own cluster than DEM, in percent.",
            "Yes: 80 % on AWA2, DEM far fewer, by eye.",
            PAPER.name,
            "dem",
            "DEM",
        ),
    ),
}
"""Claims by the name of the experiment that tests them; others test none."""
