"""`hgkt unknown`: items that look like no known class, groups among them, classes made of them.

They come from `hgkt serve --keep-unknown`, or from a folder or table of any items.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from hgkt.cli._inputs import NO_THRESHOLDS, held, label_of, load_model, read_items, read_vector
from hgkt.cli._new_classes import describer_of
from hgkt.cli._options import (
    Device,
    DeviceOption,
    JsonOption,
    ModelOption,
    WeightsOption,
    with_options,
)
from hgkt.cli._output import counted, emit, note, percent, say, show_table
from hgkt.cli._registry import DatabaseOptions, ReasonOption, own_origin, served
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    from hgkt.serving.inbox import Inbox
    from hgkt.serving.live_model import ServedModel
    from hgkt.unknown import Group

app = typer.Typer(
    help="Items that look like no known class, and classes made of them.", no_args_is_help=True
)
MinSizeOption = Annotated[
    int, typer.Option("--min-size", min=2, metavar="N", help="The fewest items of a group.")
]


@dataclass
class Source(DatabaseOptions):
    """The options that say where unknown items are.

    Parameters
    ----------
    inbox : DIR|database
        What `hgkt serve --keep-unknown` was given.
    items : PATH
        Instead: photos, a table of texts, or rows of features.
    reject : SHARE
        Of --items those are taken that look stranger than all but so many known ones.
    """

    inbox: str | None = None
    items: Path | None = None
    reject: float = 0.05
    weights: WeightsOption = None
    device: DeviceOption = Device.auto

    def __post_init__(self) -> None:
        """Refuse both or none."""
        if (self.inbox is None) == (self.items is None):
            raise DataError("say where the items are: either --inbox DIR or --items PATH")


@dataclass(frozen=True)
class _Unknown:
    """Unknown items: their names, features (n, D), novelty (n,) and nearest classes."""

    names: tuple[str, ...]
    features: NDArray[Any]
    novelty: NDArray[np.float64]
    nearest: tuple[str, ...]
    model: Any

    def rows(self) -> list[dict[str, Any]]:
        """Return what JSON says of each."""
        return [
            {"item": name, "novelty": float(novelty), "nearest": near}
            for name, novelty, near in zip(self.names, self.novelty, self.nearest, strict=True)
        ]

    def groups(self, min_size: int) -> list[Group]:
        from hgkt.unknown import find_groups

        return find_groups(self.model, self.features, min_size) if len(self.names) else []


@app.command("list")
@with_options
def list_(model: ModelOption, source: Source, as_json: JsonOption = False) -> None:
    """List items that look like no known class.

    Example: hgkt unknown list --model photo-model --inbox kept
    """
    with _opened(source, model) as (found, _, _):
        rows = found.rows()
    document = {"model": model, "n_items": len(rows), "items": rows}

    def render() -> None:
        lines = [[row["item"], f"{row['novelty']:.3f}", row["nearest"]] for row in rows]
        show_table(["item", "novelty", "nearest class"], lines)
        say(counted(len(lines), "item") + (" waits" if len(lines) == 1 else " wait"))

    emit(document, as_json, render)


@app.command()
@with_options
def groups(
    model: ModelOption, source: Source, min_size: MinSizeOption = 5, as_json: JsonOption = False
) -> None:
    """Find groups among them that may be a class each, the largest first.

    Example: hgkt unknown groups --model photo-model --items photos/new
    """
    with _opened(source, model) as (found, _, _):
        rows: list[dict[str, Any]] = [
            {
                "size": group.size,
                "sureness": group.sureness,
                "example": found.names[group.example],
                "neighbours": [vars(near) for near in group.neighbours],
                "items": [found.names[row] for row in group.rows.tolist()],
            }
            for group in found.groups(min_size)
        ]
    document = {"model": model, "n_items": len(found.names), "groups": rows}

    def render() -> None:
        lines = [
            [
                row["size"],
                percent(row["sureness"]),
                ", ".join(
                    f"{near['label']} {percent(near['probability'])}" for near in row["neighbours"]
                ),
                row["example"],
            ]
            for row in rows
        ]
        show_table(["items", "apart", "near to", "example"], lines)
        n_grouped = sum(row["size"] for row in rows)
        say(f"{n_grouped} of {counted(len(found.names), 'item')} in {counted(len(rows), 'group')}")

    emit(document, as_json, render)


@app.command()
@with_options
def make(
    model: ModelOption,
    source: Source,
    group: str,
    name: str,
    text: list[str] | None = None,
    attributes: str | None = None,
    min_size: MinSizeOption = 5,
    reason: ReasonOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a class of a group: it is added by its description and learns from the items.

    With --inbox in the class registry, which services follow; with --items in the model folder.
    A class that the model has learns from the items and keeps its description.

    Example: hgkt unknown make --model m --inbox kept --group 3f2a --name okapi --text "a striped
    animal with a long neck"

    Parameters
    ----------
    group : ITEM
        An item of the group, as shown.
    name
        Name of the class.
    text
        What it is, for a model trained on text; repeatable.
    attributes
        Its attributes: "0.1,0.2,…", or @FILE that holds them.
    """
    from hgkt.language import ClassDescription

    vector = None if attributes is None else read_vector(attributes)
    description = ClassDescription(name, vector, None, text or None)
    with _opened(source, model) as (found, live, inbox):
        chosen = _group_of(found, group, min_size)
        if live is not None and inbox is not None:
            from hgkt.serving.inbox import make_class

            ids = [found.names[row] for row in chosen.rows.tolist()]
            made = make_class(live, inbox, ids, description, own_origin(reason))
            document: dict[str, Any] = {
                "model": model, "name": made.name, "n_examples": made.n_examples,
                "revision": made.edition.revision, "before": made.before,
                "warnings": list(made.doubts),
            }  # fmt: skip
            undo = f"hgkt classes rollback {made.before} --model {model}"
        else:
            n_examples = _make_in_folder(model, description, found.features[chosen.rows])
            document = {"model": model, "name": name, "n_examples": n_examples, "warnings": []}
            undo = f"hgkt classes remove {name!r} --model {model}"
    for doubt in document["warnings"]:
        note(f"warning: {doubt}")
    learned = counted(document["n_examples"], "item")
    emit(document, as_json, lambda: say(f"{name} has learned from {learned}; undo: {undo}"))


def _make_in_folder(model: Path, description: Any, rows: NDArray[Any]) -> int:
    """Add and grow the class in the model folder, in one step; return how many rows it got."""
    with held(model) as loaded:
        label = label_of(loaded, description.name)
        new = None
        if label not in loaded.classes_.tolist():
            new = {label: describer_of(loaded).vectors([description])[0]}
        loaded.grow({label: loaded.example_sums(rows)}, new).save(model)
    return len(rows)


def _group_of(found: _Unknown, item: str, min_size: int) -> Group:
    """Return the group of an item, whose name may be cut where no other begins so."""
    exact = [row for row, name in enumerate(found.names) if name == item]
    rows = exact or [row for row, name in enumerate(found.names) if name.startswith(item)]
    if len(rows) != 1:
        what = "no unknown item is called" if not rows else "several unknown items begin with"
        raise DataError(f"{what} {item!r}; `hgkt unknown groups` shows an example of each group")
    for group in found.groups(min_size):
        if rows[0] in group.rows:
            return group
    raise DataError(f"item {item!r} is in no group of {min_size} items or more")


@contextmanager
def _opened(
    source: Source, folder: Path
) -> Iterator[tuple[_Unknown, ServedModel | None, Inbox | None]]:
    """Yield the unknown items; with an inbox also the model with its registry, and the inbox."""
    model = load_model(folder)
    if model.confidence_ is None:
        raise DataError(f"unknown items cannot be told: {NO_THRESHOLDS}")
    if source.items is not None:
        yield _among(source, model), None, None
        return
    url = source.address(folder, new=True)
    from hgkt.serving.edition import model_identity
    from hgkt.serving.inbox import DATABASE, Inbox, Waiting, existing_address

    place = url if source.inbox == DATABASE else existing_address(str(source.inbox))
    with served(url, model) as live, Inbox(place, model_identity(model)) as inbox:
        edition = live.current()
        waiting = Waiting.of(inbox, edition)
        items = waiting.items
        yield (
            _Unknown(items.ids, items.features, waiting.novelty, waiting.nearest, edition.model),
            live,
            inbox,
        )


def _among(source: Source, model: Any) -> _Unknown:
    """Return those of the items of an option that the model rejects."""
    given = read_items(Path(str(source.items)), model, source.weights, str(source.device))
    answers = model.answers(given.features, reject=source.reject)
    rows = np.flatnonzero(np.asarray(answers.novelty) > 1.0 - source.reject)
    nearest = answers.classes[answers.scores[rows].argmax(axis=1)]
    return _Unknown(
        tuple(given.names[row] for row in rows.tolist()),
        given.features[rows],
        np.asarray(answers.novelty)[rows],
        tuple(map(str, nearest.tolist())),
        model,
    )
