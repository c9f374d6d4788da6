"""Run records: one JSON file per evaluation, from which every table is made."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable, Iterable
from dataclasses import MISSING, asdict, dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from hgkt._files import read_json, sha256, write_file
from hgkt._plain import json_text, plain
from hgkt.evaluation.confidence import GroupConfidence, UnknownMetrics
from hgkt.evaluation.levels import BackOff, LevelAccuracy, TaxonomyReport
from hgkt.evaluation.metrics import ClassAccuracies, GZSLMetrics
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    import pandas as pd

FORMAT = "hgkt-run-1"
PROTOCOL = "2"  # 1: most methods selected by H without γ; 2: all by AUSUC, then γ
"""Version of the rule by which methods are selected and calibrated."""

_PACKAGES = {"numpy": "numpy", "scipy": "scipy", "sklearn": "scikit-learn", "torch": "torch"}


@dataclass(frozen=True)
class ZSLResult:
    """What the setting with the highest ZSL accuracy on validation classes reaches, in percent.

    Parameters
    ----------
    zsl : float
        Accuracy on images of unseen classes, unseen classes only being candidates.
    selected : dict
        The setting.
    score : float
        Its mean ZSL accuracy over the validation folds.
    per_class : tuple of float
        The accuracy of each unseen class.
    """

    zsl: float
    selected: dict[str, Any]
    score: float
    per_class: tuple[float, ...]


@dataclass(frozen=True)
class RunRecord:
    """Everything about one evaluation; accuracies in percent, times in seconds.

    Parameters
    ----------
    method : str
        Registered name of the method, or its class name.
    parameters : dict
        Every parameter the tested model had.
    selected : dict
        Those that were chosen on validation classes, with ``calibration`` where γ was.
    calibration : float
        The γ in force.
    data : dict
        ``name``, ``fingerprint``, ``about`` and the counts of the data set.
    seed : int
        Seed of the folds.
    metrics : GZSLMetrics
        The result: at the calibration in force.
    uncalibrated : GZSLMetrics
        The same model at γ = 0.
    calibrated : GZSLMetrics or None
        The same model at the γ found on validation classes, or set by hand; None where no γ is
        known.
    validation : dict
        ``metric``, ``score``, ``calibration``, ``n_folds``, ``n_settings``; empty where nothing
        was searched.
    timings : dict
        ``select``, ``fit``, ``test`` and ``total``.
    versions, machine : dict
        Where it ran.
    per_class : ClassAccuracies or None
        The accuracy of each class; None in records of earlier versions.
    by_zsl : ZSLResult or None
        What selection by ZSL would have given, where that was asked for.
    confidence_seen, confidence_unseen : GroupConfidence or None
        How right the confidence is on test rows of each group; None where the model has none.
    unknown : UnknownMetrics or None
        What happens to rows of classes that are never added, where that was asked for.
    taxonomy : TaxonomyReport or None
        Accuracy by level, back-off and the distance of mistakes, where the data set has groups.

    Examples
    --------
    >>> import tempfile
    >>> from hgkt import HGKTClassifier, evaluate, load_dataset
    >>> record = evaluate(HGKTClassifier(), load_dataset("digits"), calibrate=False)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     RunRecord.load(record.save(folder)) == record
    True
    >>> records_frame([record])[["method", "data", "seed"]].to_dict("records")
    [{'method': 'hgkt', 'data': 'digits', 'seed': 0}]
    """

    method: str
    parameters: dict[str, Any]
    selected: dict[str, Any]
    calibration: float
    data: dict[str, Any]
    seed: int
    metrics: GZSLMetrics
    uncalibrated: GZSLMetrics
    calibrated: GZSLMetrics | None
    validation: dict[str, Any]
    timings: dict[str, float]
    versions: dict[str, str]
    machine: dict[str, Any]
    per_class: ClassAccuracies | None = None
    by_zsl: ZSLResult | None = None
    confidence_seen: GroupConfidence | None = None
    confidence_unseen: GroupConfidence | None = None
    unknown: UnknownMetrics | None = None
    taxonomy: TaxonomyReport | None = None

    @property
    def key(self) -> str:
        """Twelve hexadecimal digits of what went in: method, parameters, data and seed."""
        asked = [self.method, self.parameters, self.selected, self.data, self.seed]
        return sha256(json.dumps(plain(asked), sort_keys=True))[:12]

    @property
    def file_name(self) -> str:
        """``METHOD-DATA-KEY.json``."""
        name = f"{self.method}-{self.data['name']}"
        safe = "".join(c if c.isalnum() or c in "-_." else "_" for c in name)
        return f"{safe}-{self.key}.json"

    def to_dict(self) -> dict[str, Any]:
        """Return what the JSON file holds."""
        document: dict[str, Any] = plain({"format": FORMAT, **asdict(self)})
        return document

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Self:
        """Make a record of what `to_dict` returned.

        Parameters
        ----------
        document : dict
            The content of a record's file.
        """
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise DataError(f"this is no run record of format {FORMAT!r}")
        needed = [field.name for field in fields(cls) if field.default is MISSING]
        missing = [name for name in needed if name not in document]
        if missing:
            raise DataError(f"the run record lacks {missing[0]!r}")
        values: dict[str, Any] = {field.name: document.get(field.name) for field in fields(cls)}
        try:
            for name, (kind, read) in _PARTS.items():
                values[name] = None if values[name] is None else kind(**read(values[name]))
        except TypeError as error:
            reason = str(error)[:200]
            raise DataError(f"the run record has other metrics than expected: {reason}") from error
        return cls(**values)

    def save(self, folder: str | Path) -> Path:
        """Write the record into `folder` in one step; the same run replaces its own file.

        Parameters
        ----------
        folder : path
            Made if it is not there.

        Returns
        -------
        Path
            The file.
        """
        return write_file(Path(folder) / self.file_name, json_text(self.to_dict()))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read one record.

        Parameters
        ----------
        path : path
            The file that `save` wrote.
        """
        document = read_json(path)
        try:
            return cls.from_dict(document)
        except DataError as error:
            raise DataError(f"{path}: {error}") from error


def _tuples(values: dict[str, Any]) -> dict[str, Any]:
    """JSON has lists only."""
    return {k: tuple(value) if isinstance(value, list) else value for k, value in values.items()}


def _taxonomy_parts(values: dict[str, Any]) -> dict[str, Any]:
    kinds: dict[str, type] = {"levels": LevelAccuracy, "back_off": BackOff}
    parts = {name: tuple(kind(**part) for part in values[name]) for name, kind in kinds.items()}
    return values | parts


_PARTS: dict[str, tuple[type, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "metrics": (GZSLMetrics, _tuples),
    "uncalibrated": (GZSLMetrics, _tuples),
    "calibrated": (GZSLMetrics, _tuples),
    "per_class": (ClassAccuracies, _tuples),
    "by_zsl": (ZSLResult, _tuples),
    "confidence_seen": (GroupConfidence, dict),
    "confidence_unseen": (GroupConfidence, dict),
    "unknown": (UnknownMetrics, dict),
    "taxonomy": (TaxonomyReport, _taxonomy_parts),
}


def load_records(folder: str | Path) -> list[RunRecord]:
    """Read every record of a folder, in the order of file names.

    Parameters
    ----------
    folder : path
        A folder into which `RunRecord.save` wrote.
    """
    return [RunRecord.load(path) for path in sorted(Path(folder).glob("*.json"))]


def records_frame(records: Iterable[RunRecord]) -> pd.DataFrame:
    """Return one row per record: method, data, seed, calibration, metrics and total seconds.

    ``ts``, ``tr`` and ``H`` are at the calibration in force; ``ts_uncalibrated``,
    ``tr_uncalibrated`` and ``H_uncalibrated`` stand beside them.

    Parameters
    ----------
    records : iterable of RunRecord
        The records.
    """
    import pandas as pd

    return pd.DataFrame(
        [
            {
                "method": record.method,
                "data": record.data["name"],
                "seed": record.seed,
                "calibration": record.calibration,
                **record.metrics.to_dict(),
                **{
                    f"{name}_uncalibrated": getattr(record.uncalibrated, name)
                    for name in ("ts", "tr", "H")
                },
                "seconds": record.timings["total"],
            }
            for record in records
        ]
    )


def versions() -> dict[str, str]:
    """Return the versions of Python, hgkt, the protocol and the numerical packages loaded."""
    from hgkt import __version__

    found = {"python": platform.python_version(), "hgkt": __version__, "protocol": PROTOCOL}
    for module, package in _PACKAGES.items():
        if module in sys.modules:
            try:
                found[module] = version(package)
            except PackageNotFoundError:
                found[module] = str(getattr(sys.modules[module], "__version__", "unknown"))
    return found


def machine() -> dict[str, Any]:
    """Return the platform and the number of processors that this process may use."""
    try:
        n_cpus = len(os.sched_getaffinity(0))
    except AttributeError:
        n_cpus = os.cpu_count() or 1
    return {"platform": platform.platform(), "n_cpus": n_cpus}
