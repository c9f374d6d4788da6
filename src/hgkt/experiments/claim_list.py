"""The claims by experiment: those of the paper, and of ours those that its readers will ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hgkt.experiments.base import DataSpec
from hgkt.experiments.blocks import Outcome, Slot
from hgkt.experiments.claims import CalibrationClaim, Claim, ClusterClaim, PairedClaim
from hgkt.experiments.tables.rows import DEFAULT, PAPER, MethodRow, rows_of


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
