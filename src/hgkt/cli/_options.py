"""Options that several commands share; groups of them are dataclasses."""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, is_dataclass
from functools import wraps
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer
from typer.models import OptionInfo

from hgkt.cli._output import wants_json
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    from hgkt.data import GZSLDataset, ShardedData
    from hgkt.estimators import GZSLClassifier


Device = Literal["auto", "cpu", "cuda"]
Engine = Literal["local", "ray"]


class CommonOptions:
    """Options that mean the same in every command, by the name that every signature gives them.

    A docstring that describes one itself comes first.

    Parameters
    ----------
    as_json
        Print one JSON document on stdout.
    attributes : KIND
        Class attributes: att, original_att, NAME of a NAME_splits.mat (sent), a file (.parquet,
        .csv), or a+b.
    device
        Where to compute.
    model : FOLDER
        Model folder, as `hgkt train` writes it.
    reason
        Why, in words; it is kept in the log.
    root : FOLDER
        Folder that holds the benchmark's data-set folders.
    seed : N
        Seed of everything random.
    weights : PATH
        Of images: the backbone's weights, if they were moved.
    """


def split_names(names: str) -> list[str]:
    """Return names that an option holds, separated by commas, each once.

    Examples
    --------
    >>> split_names("CUB, AWA1,CUB")
    ['CUB', 'AWA1']
    """
    return list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))


def read_parameters(pairs: list[str] | None) -> dict[str, Any]:
    """Read ``NAME=VALUE`` pairs; a value is JSON where it can be, else text.

    Examples
    --------
    >>> read_parameters(["ridge=0.1", "kernel=rbf"])
    {'ridge': 0.1, 'kernel': 'rbf'}
    """
    parsed = {}
    for text in pairs or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise DataError(f"--param expects NAME=VALUE; got {text!r}")
        try:
            parsed[name.strip()] = json.loads(value)
        except ValueError:
            parsed[name.strip()] = value
    return parsed


@dataclass(frozen=True)
class EngineOptions:
    """Where tasks run, and how many at a time; one field per option.

    Parameters
    ----------
    engine : default local
        Processes of this machine, or tasks of the Ray cluster that $RAY_ADDRESS names, else of
        one that is started here.
    workers : N, default one per core
        How many at a time.
    """

    engine: Engine | None = None
    workers: Annotated[int | None, typer.Option(min=0)] = None

    @property
    def are_given(self) -> bool:
        """Whether anything was said."""
        return self != EngineOptions()

    def engine_and_address(self) -> dict[str, Any]:
        """Return `engine` and `address` as the library's functions take them."""
        address = os.environ.get("RAY_ADDRESS") if self.engine == "ray" else None
        return {"engine": self.engine or "local", "address": address}


@dataclass(frozen=True)
class AnswerOptions:
    """What is asked of each row or item; one field per option.

    Parameters
    ----------
    top : N
        How many classes to show.
    among : A,B
        Candidates: all, seen, unseen, or classes a,b,c.
    reject : SHARE
        Answer “unknown” where a row looks like no known class; so many rows of known classes may
        be rejected by mistake, e.g. 0.05.
    coverage : SHARE
        Also give the classes among which the true one is, so often, e.g. 0.9.
    """

    top: Annotated[int, typer.Option(min=1)] = 1
    among: str = "all"
    reject: float | None = None
    coverage: float | None = None


@dataclass(frozen=True)
class ReaderOptions:
    """How photos and texts are read; one field per option."""

    weights: Path | None = None
    device: Device = "auto"


@dataclass(frozen=True)
class DataOptions:
    """A data set; one field per option.

    Parameters
    ----------
    data : NAME
        Data set: a name of `hgkt datasets list`, or a path.
    features : NAME, default res101, or the only one
        Feature file of an xlsa17 folder, without .mat.
    """

    data: str = "digits"
    root: Path | None = None
    features: str | None = None
    attributes: str = "att"

    def load(self) -> GZSLDataset:
        """Load the data set."""
        from hgkt.data import load_dataset

        return load_dataset(self.data, self.root, self.features, self.attributes)


@dataclass(frozen=True)
class MethodOptions:
    """A method and what is chosen on validation classes; one field per option.

    Parameters
    ----------
    method : NAME
        Method: a name of `hgkt methods`, or package.module:Class.
    preset : NAME
        Preset of parameters: default, paper or exact (hgkt); released (cn-zsl, sync, gfzsl,
        sae, cada-vae): what its authors published.
    param : NAME=VALUE
        Set a parameter; repeatable.
    select : default no; of photos: where there are enough
        Choose parameters on validation classes.
    calibrate : default calibrate, unless --param sets one
        Choose a calibration on validation classes.
    """

    method: Annotated[str, typer.Option("--method", "-m")] = "hgkt"
    preset: str | None = None
    param: Annotated[list[str] | None, typer.Option("--param", "-p")] = None
    select: bool | None = None
    calibrate: bool | None = None
    seed: int = 0
    device: Device = "auto"

    def choices(self) -> dict[str, Any]:
        """Return what is chosen on validation classes, as the library's functions take it."""
        calibrate = "auto" if self.calibrate is None else self.calibrate
        return {"select": bool(self.select), "calibrate": calibrate, "random_state": self.seed}

    def check(self) -> GZSLClassifier:
        """Return the method as it is without data; what is wrong with its parameters is said."""
        from hgkt.estimators.methods import build_method

        if ":" in self.method and "" not in sys.path:
            sys.path.insert(0, "")  # a method of one's own may lie in the working folder
        return build_method(self.method, self.preset, read_parameters(self.param))

    def estimator(self, dataset: GZSLDataset | ShardedData) -> GZSLClassifier:
        """Return the method for a data set, unfitted.

        Parameters
        ----------
        dataset : GZSLDataset or ShardedData
            The data it is for, which knows the blocks of the attribute vectors.
        """
        from hgkt.estimators.methods import method_for

        return method_for(
            dataset,
            self.method,
            self.preset,
            read_parameters(self.param),
            device=self.device,
            random_state=self.seed,
        )


# ---------------------------------------------------------------------- from signatures to options
_SECTION = "\n\nParameters\n----------\n"
_AS_JSON = Parameter("as_json", Parameter.KEYWORD_ONLY, default=False, annotation=bool)


def with_options(command: Callable[..., None], has_result: bool = True) -> Callable[..., None]:
    """Return a command as Typer takes it: what its docstring says of a parameter is the help.

    A parameter is the option of its name, unless its annotation names another one. Its entry under
    "Parameters" may show what to type, and what stands for a default: ``name : METAVAR, default
    words``. What `CommonOptions` says holds for all commands. Parameters that are dataclasses of
    options, such as `MethodOptions`, are spread. A command with a result also takes ``--json``, by
    which `emit` goes.
    """
    given = dict(inspect.signature(command, eval_str=True).parameters)
    if has_result:
        given["as_json"] = _AS_JSON
    own = _described(command, _described(CommonOptions, given))
    groups: dict[str, Any] = {
        name: parameter.annotation
        for name, parameter in own.items()
        if is_dataclass(parameter.annotation)
    }
    fields = {name: _fields(kind) for name, kind in groups.items()}
    parameters = [
        parameter.replace(kind=Parameter.KEYWORD_ONLY)
        for name, single in own.items()
        for parameter in (fields[name].values() if name in fields else (single,))
    ]

    @wraps(command)
    def call(**values: Any) -> None:
        wants_json.set(values.pop("as_json", False))
        options = {
            name: kind(**{field: values.pop(field) for field in fields[name]})
            for name, kind in groups.items()
        }
        command(**options, **values)

    call.__doc__ = inspect.cleandoc(command.__doc__ or "").partition(_SECTION)[0]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    vars(call)["__signature__"] = inspect.Signature(parameters)
    return call


def command_of(app: typer.Typer, name: str | None = None) -> Callable[..., Any]:
    """Return a decorator that adds a command `with_options` to an app, by default by its name."""
    return lambda command: app.command(name)(with_options(command))


def _fields(kind: Any) -> dict[str, Parameter]:
    """Return the parameters of a dataclass, their types as the module of each field has them."""
    hints = get_type_hints(kind, include_extras=True)
    found = {
        name: parameter.replace(annotation=hints[name])
        for name, parameter in inspect.signature(kind).parameters.items()
    }
    for owner in (CommonOptions, *kind.__mro__[:-1]):
        found = _described(owner, found)
    return found


def _described(owner: Any, parameters: Mapping[str, Parameter]) -> dict[str, Parameter]:
    """Return parameters with what a docstring says of them in their annotations."""
    section = inspect.cleandoc(owner.__doc__ or "").partition(_SECTION)[2]
    found = dict(parameters)
    for entry in re.split(r"\n(?=\S)", section) if section else ():
        head, _, text = entry.partition("\n")
        name, _, kind = head.partition(" : ")
        if owner is CommonOptions and name not in found:
            continue
        annotation = _option(found[name], kind, " ".join(text.split()))
        found[name] = found[name].replace(annotation=annotation)
    return found


def _option(parameter: Parameter, kind: str, text: str) -> Any:
    """Return the annotation of an option, or of an argument where it says so."""
    annotation = parameter.annotation
    base, *given = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    info: Any = copy(given[0]) if given else typer.Option()
    metavar, _, shown = kind.partition("default ")
    info.help, info.metavar = text, metavar.rstrip(", ") or None
    if shown:
        info.show_default = shown
    if isinstance(info, OptionInfo) and info.default is ...:
        flag = "--" + parameter.name.removeprefix("as_").replace("_", "-")
        both = base in (bool, bool | None) and parameter.default is not False
        info.default = f"{flag}/--no-{flag[2:]}" if both else flag
    return Annotated[base, info]
