"""How `hgkt classes check` shows what it found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hgkt.cli._output import say, show_table

if TYPE_CHECKING:
    from hgkt.estimators.checking import ClassCheck


def show_checks(checks: Sequence[ClassCheck]) -> None:
    """Print the sentences of one check and its rivals; of several, one line each."""
    if len(checks) == 1:
        say(*checks[0].sentences())
        if checks[0].rivals:
            rows = [
                [rival.label, _percent(rival.share), f"{rival.similarity:.2f}"]
                for rival in checks[0].rivals
            ]
            show_table(["rival", "share of its images", "similarity of attributes"], rows)
        return
    rows = [
        [
            check.name,
            _percent(check.accuracy),
            _percent(check.distance),
            ", ".join(str(rival.label) for rival in check.rivals[:3]),
            ", ".join(str(loss.label) for loss in check.losses),
            ", ".join(map(str, check.duplicates)),
        ]
        for check in checks
    ]
    show_table(["class", "accuracy", "distance", "rivals", "would lose", "same as"], rows)
    for reason in dict.fromkeys(reason for check in checks for reason in check.reasons):
        say(reason)


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100.0 * share:.0f} %"
