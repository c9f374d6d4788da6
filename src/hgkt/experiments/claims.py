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
_VERDICTS = ("yes", "no", "undecided")


@dataclass(frozen=True)
class Judgement:
    """What became of a claim here.

    Parameters
    ----------
    sentence, paper : str
        The claim, and what the paper says; empty where the claim is ours.
    here : tuple of str
        The numbers, one line per data set.
    holds : str
        "yes", "no", "undecided", on which data sets, or "not run".
    """

    sentence: str
    paper: str
    here: tuple[str, ...]
    holds: str

    @property
    def mark(self) -> str:
        """ "yes", "no" or "open": how the verdict is coloured."""
        return self.holds if self.holds in ("yes", "no") else "open"


@dataclass(frozen=True)
class Claim:
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
        lines: list[str] = []
        verdicts: dict[str, list[str]] = {word: [] for word in _VERDICTS}
        for data in outcome.context.data:
            own, rivals = self.slots(outcome, data)
            level = outcome.value(own, _PATHS[self.metric]).mean
            figures = {n: outcome.value(s, _PATHS[self.metric]).mean for n, s in rivals.items()}
            ran = {label: figure for label, figure in figures.items() if figure is not None}
            if level is None or not ran:
                continue
            best = max(ran, key=lambda label: ran[label])
            low, high = _bounds(outcome, own, rivals[best], self.metric)
            gap, *ends = (number_text(n, "+.1f") for n in (level - ran[best], low, high))
            within = f" ({' to '.join(ends)})" if low < high else ""
            lines.append(
                f"{data.name}: {level:.1f} against {ran[best]:.1f} of {best}, {gap}{within}"
            )
            verdicts["yes" if low > 0 else "no" if high < 0 else "undecided"].append(data.name)
        return Judgement(self.sentence, self.paper, tuple(lines), _verdict(verdicts))


def _bounds(outcome: Outcome, first: Slot, second: Slot, metric: str) -> tuple[float, float]:
    """Return the bounds of the difference: paired, or by the deviations where nothing is to pair.

    Records without accuracies per class cannot be paired.
    """
    paired = difference_of(outcome.by_seed(first), outcome.by_seed(second), metric)
    if paired is not None:
        return paired.low, paired.high
    ours, theirs = (outcome.value(slot, _PATHS[metric]) for slot in (first, second))
    difference = (ours.mean or 0.0) - (theirs.mean or 0.0)
    spread = max(ours.deviation or 0.0, theirs.deviation or 0.0)
    return difference - spread, difference + spread


def _verdict(verdicts: Mapping[str, Sequence[str]]) -> str:
    """Return one word where all data sets agree, else which data sets say what."""
    found = {word: sets for word, sets in verdicts.items() if sets}
    if len(found) < 2:
        return next(iter(found), "not run")
    return "; ".join(f"{word} on {', '.join(sets)}" for word, sets in found.items())


def _read_claims() -> dict[str, Sequence[Claim]]:
    text = Path(__file__).with_name("claims.toml").read_text(encoding="utf-8")
    return {
        name: [Claim(**claim) for claim in found] for name, found in tomllib.loads(text).items()
    }


CLAIMS: Mapping[str, Sequence[Claim]] = _read_claims()
"""Claims by the name of the experiment that tests them; others test none."""
