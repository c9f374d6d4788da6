"""`hgkt methods`, and the options by which `hgkt train` and `hgkt evaluate` choose one."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hgkt.cli._common import (
    AttributesOption,
    Device,
    DeviceOption,
    JsonOption,
    RootOption,
    SeedOption,
    emit,
    show_table,
)
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    from hgkt.data import GZSLDataset, ShardedData
    from hgkt.estimators import GZSLClassifier


def methods_command(as_json: JsonOption = False) -> None:
    """Show the methods by name and where they were published; --json tells more.

    Example: hgkt methods
    """
    from hgkt.estimators.methods import METHODS

    keys = ("summary", "family", "reference")
    entries = [
        {"name": name} | {key: getattr(entry, key) for key in keys}
        for name, entry in METHODS.items()
    ]
    columns = ("name", "what", "published")
    rows = [
        (entry["name"], entry["summary"], short_reference(entry["reference"])) for entry in entries
    ]
    emit({"methods": entries}, as_json, lambda: show_table(columns, rows))


def short_reference(reference: str) -> str:
    """Return a reference without the title: the first author, and where and when.

    Examples
    --------
    >>> short_reference("Lampert, Nickisch, Harmeling, Attribute-Based Classification, TPAMI 2014")
    'Lampert et al., TPAMI 2014'
    >>> short_reference("Wang et al., Heterogeneous Graph-based Knowledge Transfer, 2019")
    'Wang et al., 2019'
    """
    first, *others = reference.split(", ")
    if len(others) > 1 and not first.endswith("et al."):
        first += " et al."
    return ", ".join([first, *others[-1:]])


@dataclass(frozen=True)
class FitOptions:
    """A data set, a method, and what is chosen on validation classes; one field per option."""

    data: Annotated[
        str, typer.Option("--data", help="Data set: a name of `hgkt datasets list`, or a path.")
    ] = "digits"
    root: RootOption = None
    features: Annotated[
        str | None,
        typer.Option(
            "--features",
            help="Feature file of an xlsa17 folder, without .mat.",
            show_default="res101, or the only one",
        ),
    ] = None
    attributes: AttributesOption = "att"
    method: Annotated[
        str,
        typer.Option(
            "--method", "-m", help="Method: a name of `hgkt methods`, or package.module:Class."
        ),
    ] = "hgkt"
    preset: Annotated[
        str | None,
        typer.Option(
            "--preset",
            help="Preset of parameters: default, paper or exact (hgkt); released (cn-zsl, sync, "
            "gfzsl, sae): what its authors published.",
        ),
    ] = None
    param: Annotated[
        list[str] | None,
        typer.Option("--param", "-p", metavar="NAME=VALUE", help="Set a parameter; repeatable."),
    ] = None
    select: Annotated[
        bool | None,
        typer.Option(
            "--select/--no-select",
            help="Choose parameters on validation classes.",
            show_default="no; of --images: where there are enough",
        ),
    ] = None
    folds: Annotated[
        int | None,
        typer.Option(
            "--folds", min=1, help="Class folds.", show_default="3, or 6 where classes are few"
        ),
    ] = None
    calibrate: Annotated[
        bool | None,
        typer.Option(
            "--calibrate/--no-calibrate",
            help="Choose a calibration on validation classes.",
            show_default="calibrate, unless --param sets one",
        ),
    ] = None
    seed: SeedOption = 0
    device: DeviceOption = Device.auto

    @property
    def calibration(self) -> bool | str:
        """Whether γ is chosen: True, False or "auto"."""
        return "auto" if self.calibrate is None else self.calibrate

    def load(self) -> GZSLDataset:
        """Load the data set."""
        from hgkt.data import load_dataset

        return load_dataset(
            self.data, root=self.root, features=self.features, attributes=self.attributes
        )

    def estimator(
        self, dataset: GZSLDataset | ShardedData | None = None, seed: int | None = None
    ) -> GZSLClassifier:
        """Return the method, unfitted; what is wrong with its parameters is said here.

        Parameters
        ----------
        dataset : GZSLDataset or ShardedData, optional
            The data it is for, which knows the blocks of the attribute vectors.
        seed : int, optional
            Another seed than that of the options.
        """
        from hgkt.estimators.methods import build_method

        if ":" in self.method and "" not in sys.path:
            sys.path.insert(0, "")  # a method of one's own may lie in the working folder
        blocks = [] if dataset is None else list(dataset.about.get("attribute_blocks") or [])
        model: GZSLClassifier = build_method(
            self.method,
            self.preset,
            parse_params(self.param),
            data=None if dataset is None else dataset.name,
            device=str(self.device),
            random_state=self.seed if seed is None else seed,
            attribute_blocks=blocks if len(blocks) > 1 else None,
        )
        return model


def parse_params(params: list[str] | None) -> dict[str, Any]:
    """Read ``NAME=VALUE`` pairs; a value is JSON where it can be, else text.

    Examples
    --------
    >>> parse_params(["ridge=0.1", "kernel=rbf"])
    {'ridge': 0.1, 'kernel': 'rbf'}
    """
    parsed = {}
    for text in params or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise DataError(f"--param expects NAME=VALUE; got {text!r}")
        try:
            parsed[name.strip()] = json.loads(value)
        except ValueError:
            parsed[name.strip()] = value
    return parsed
