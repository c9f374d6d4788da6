"""`hgkt predict` over many Parquet files, and the options of commands that use several workers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from hgkt.cli._common import emit, note, progress_bar, say
from hgkt.cli._model import candidate_names, check_backbone
from hgkt.exceptions import DataError

_SHOWN_CLASSES = 12


class EngineName(StrEnum):
    """Where work is done."""

    local = "local"
    ray = "ray"


EngineOption = Annotated[
    EngineName | None,
    typer.Option(
        "--engine", help="Processes of this machine, or tasks of a Ray cluster.", show_default=False
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--workers", min=0, metavar="N", help="How many at a time.", show_default="one per core"
    ),
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="ADDRESS",
        help="Of the Ray cluster: auto, HOST:PORT or ray://HOST:PORT.",
        show_default="one is started here",
    ),
]


@dataclass(frozen=True)
class Workers:
    """Where work is done, as the command line said it."""

    engine: EngineName | None
    workers: int | None
    address: str | None

    @property
    def are_given(self) -> bool:
        """Whether anything was said."""
        return self != Workers(None, None, None)

    def options(self) -> dict[str, Any]:
        """Return `engine`, `n_workers` and `address` for `open_engine`."""
        engine = self.engine or (EngineName.ray if self.address else EngineName.local)
        if self.address and engine is not EngineName.ray:
            raise DataError("--address is that of a Ray cluster: give --engine ray, too")
        return {"engine": str(engine), "n_workers": self.workers, "address": self.address}


@dataclass(frozen=True)
class Asked:
    """What the command line asks of every row."""

    model: Path
    among: str
    top_k: int
    reject: float | None
    coverage: float | None
    device: str


def is_bulk(data: str | None, out: Path | None, workers: Workers) -> bool:
    """Say whether predictions of Parquet files are to be written to a folder."""
    place = Path(data or "")
    rows = data is not None and (place.is_dir() or place.suffix == ".parquet")
    folder = out is not None and out.suffix not in (".csv", ".parquet")
    if workers.are_given and not (rows and folder):
        raise DataError(
            "--engine, --workers and --address are for Parquet files whose predictions go to a "
            "folder: give --data FOLDER and --out FOLDER"
        )
    return rows and folder


def predict_in_bulk(
    asked: Asked, data: Path, out: Path | None, workers: Workers, as_json: bool
) -> None:
    """Predict all rows of Parquet files, and say what was done."""
    from hgkt.estimators import load_model
    from hgkt.evaluation.bulk import predict_shards

    assert out is not None
    model = load_model(asked.model)
    _check_backbone(model, data)
    with progress_bar() as bar:
        report = predict_shards(
            asked.model,
            data,
            out,
            among=candidate_names(model, asked.among),
            top_k=asked.top_k,
            reject=asked.reject,
            coverage=asked.coverage,
            device=asked.device,
            progress=bar,
            **workers.options(),
        )
    document: dict[str, Any] = {
        **{"model": asked.model, "data": data, "out": out, "among": asked.among},
        **{"n_rows": report.n_rows, "n_files": report.n_made + report.n_there},
        **{"n_made": report.n_made, "n_there": report.n_there},
        "left_alone": list(report.left_alone),
    }
    if per_class := report.per_class:
        document |= {"accuracy": float(np.mean([*per_class.values()])), "per_class": per_class}
    if report.left_alone:
        note(
            f"{out} also has {len(report.left_alone)} Parquet files that this command did not "
            f"write ({report.left_alone[0]}, …); they are left alone"
        )
    emit(document, as_json, lambda: _render(document))


def say_accuracy(document: dict[str, Any]) -> None:
    """Print the mean accuracy over classes, and those of all classes or the two ends."""
    ordered = sorted(document["per_class"].items(), key=lambda item: item[1])
    words = [f"{name} {value:.1f}" for name, value in ordered]
    if len(words) > _SHOWN_CLASSES:
        words = [*words[:3], f"… {len(words) - 6} more …", *words[-3:]]
    say(f"accuracy {document['accuracy']:.1f} % (mean over classes): {', '.join(words)}")


def _render(document: dict[str, Any]) -> None:
    there = f" ({document['n_there']} of them were there)" if document["n_there"] else ""
    say(
        f"{document['n_rows']} predictions in {document['n_files']} files{there}: {document['out']}"
    )
    if "accuracy" in document:
        say_accuracy(document)


def _check_backbone(model: Any, data: Path) -> None:
    """Refuse features of another network, where a file beside them says which it was."""
    from hgkt.data.tables import read_extra

    extra = data / "dataset.json"
    if extra.is_file():
        check_backbone(model, read_extra(extra).get("about", {}), data.name)
