"""The records in docs/results, and whether the installed methods still compute what they show."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from hgkt.estimators import METHODS
from page_tables.shown import Evaluation

Run = dict[str, Any]
"""The run record of one seed, as `RunRecord.to_dict` gives it."""


class RecordError(Exception):
    """A record that is missing, in one sentence."""


class Records:
    """Everything that was measured.

    Parameters
    ----------
    folder : Path
        With ``cells``, a store of `hgkt reproduce`; ``bench``, what
        `benchmarks/run.py NAME --json` printed; and the records of the scripts in ``benchmarks``.

    Attributes
    ----------
    stale : set of str
        Records that were asked for and are of other mathematics than the installed method's, a
        sentence each.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stale: set[str] = set()

    def runs(self, asked: Evaluation) -> list[Run]:
        """Return the run records of an evaluation, one per seed, in the order of seeds.

        Records of other mathematics than the installed method's, or of another protocol, count
        as absent, as they do in a store: tables leave such rows out and say how many.

        Parameters
        ----------
        asked : Evaluation
            What was evaluated.
        """
        found = sorted(self._cells.get(_key(asked), []), key=lambda cell: cell["cell"]["seed"])
        fixed = asked.options.get("select") is False
        return [
            cell["values"]
            for cell in found
            if _is_current(asked.method, cell["versions"], fixed)
            and _by_protocol(cell["values"], asked)
        ]

    def script(self, name: str, method: str = "hgkt", fixed: bool = False) -> dict[str, Any]:
        """Return the record of a script of ``benchmarks``.

        Parameters
        ----------
        name : str
            Its file, without suffix.
        method : str
            Whose mathematics it depends on; empty for none.
        fixed : bool
            Whether its figures are of fixed settings, with nothing selected by default.
        """
        document = self._read(f"{name}.json")
        if method:
            self._check(f"{name}.json", method, document.get("versions", {}), fixed)
        return document

    def bench(self, name: str) -> dict[str, Any]:
        """Return what ``benchmarks/run.py NAME --json`` printed."""
        document = self._read(f"bench/{name}.json")
        self.check_versions(f"bench/{name}.json", document["environment"].get("mathematics", {}))
        return document

    def _read(self, name: str) -> dict[str, Any]:
        try:
            document: dict[str, Any] = json.loads((self.folder / name).read_text("utf-8"))
        except FileNotFoundError:
            raise RecordError(f"there is no record {name}; README.md beside it says how") from None
        return document

    def check_versions(self, name: str, versions: Mapping[str, Any]) -> None:
        """Note whether several methods, by name, are of the mathematics given."""
        for method, version in versions.items():
            self._check(f"{name}, {method}", method, {"mathematics": version}, fixed=True)

    def _check(
        self, name: str, method: str, versions: Mapping[str, Any], fixed: bool = False
    ) -> None:
        if not _is_current(method, versions, fixed):
            self.stale.add(
                f"{name} was measured with version {_recorded(versions)} of the mathematics of "
                f"{method}, which is at {mathematics(method)}"
            )

    @cached_property
    def _cells(self) -> dict[str, list[dict[str, Any]]]:
        groups: dict[str, list[dict[str, Any]]] = {}
        for path in sorted((self.folder / "cells").glob("*.json")):
            document = json.loads(path.read_text(encoding="utf-8"))
            cell = document["cell"]
            if not document["error"]:
                groups.setdefault(_key(_evaluation(cell)), []).append(document)
        return groups


def mathematics(method: str) -> str:
    """Return the version of a method's mathematics, as the installed class says it."""
    return str(getattr(METHODS.load(method), "mathematics_version", 1))


def _recorded(versions: Mapping[str, Any]) -> str:
    return str(versions.get("mathematics", 1))  # records are older than the field


def _is_current(method: str, versions: Mapping[str, Any], fixed: bool) -> bool:
    """Tell whether the installed method computes what was recorded; `fixed`: nothing selected."""
    recorded, installed = _recorded(versions), mathematics(method)
    return recorded == installed or (fixed and (method, recorded, installed) in _SAME_IF_FIXED)


def _evaluation(cell: Mapping[str, Any]) -> Evaluation:
    options = {name: value for name, value in cell["options"].items() if (name, value) != _SELECT}
    data = cell["data"]
    return Evaluation(
        data["name"],
        cell["method"],
        data["attributes"] or "att",
        cell["params"],
        options,
        # What the report calls the closed form.
        preset="" if cell["preset"] == "default" else cell["preset"],
    )


def _by_protocol(run: Run, asked: Evaluation) -> bool:
    """Tell whether a run was selected by what is asked and tested with the calibration found.

    Or with none, if none was asked for.
    """
    how, chosen = run.get("validation") or {}, run.get("selected") or {}
    metric = asked.options.get("metric", "ausuc")
    found = how.get("calibration") if asked.options.get("calibrate", True) else None
    return how.get("metric") == metric and chosen.get("calibration") == found


_SELECT = ("select", True)

# Later versions of hgkt select several closed forms, and those of the others search other grids;
# what a fixed setting computes is what it was.
_SAME_IF_FIXED = {
    *(("hgkt", version, "3") for version in ("1", "2")),
    *((name, "3", "4") for name in ("ale", "devise")),
    *(("latem", version, "6") for version in ("3", "4", "5")),
    ("sje", "4", "5"),
    *(("cn-zsl", version, "4") for version in ("2", "3")),
    *((name, "2", "3") for name in ("conse", "eszsl", "gfzsl", "sae", "sse", "sync")),
}


def _key(asked: Evaluation) -> str:
    parts = [asked.data, asked.method, asked.attributes, dict(asked.params), dict(asked.options),
             asked.preset]  # fmt: skip
    return json.dumps(parts, sort_keys=True)
