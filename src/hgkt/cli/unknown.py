"""`hgkt unknown` and `hgkt suggest`: items of no known class, and those to label next.

Unknown items come from `hgkt serve --keep-unknown`, or from a folder or table of any items.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from hgkt._validation import label_of
from hgkt.cli._inputs import NO_THRESHOLDS, describer_of, held, load_model, read_path, read_vector
from hgkt.cli._options import ReaderOptions, command_of, with_options
from hgkt.cli._output import counted, emit, note, percent, show_table
from hgkt.cli._registry import DatabaseOptions, own_origin, served
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    from hgkt.serving.inbox import Inbox
    from hgkt.serving.live_model import ServedModel
    from hgkt.unknown import Group

app = typer.Typer(
    help="Items that look like no known class, and classes made of them.", no_args_is_help=True
)
MinSize = Annotated[int, typer.Option(min=2, metavar="N", help="The fewest items of a group.")]


@dataclass(frozen=True)
class Source(DatabaseOptions, ReaderOptions):
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

    def __post_init__(self) -> None:
        """Refuse both or none."""
        if (self.inbox is None) == (self.items is None):
            raise DataError("say where the items are: either --inbox DIR or --items PATH")


@dataclass(frozen=True)
class _Unknown:
    """Unknown items.

    Parameters
    ----------
    rows : list of dict
        What JSON says of each: ``item``, ``novelty`` and ``nearest`` class.
    features : ndarray of shape (n, D)
    model : GZSLClassifier
        The model that rejects them.
    live, inbox : optional
        The model with its registry, and where the items are kept; None for items of a path.
    """

    rows: list[dict[str, Any]]
    features: NDArray[Any]
    model: Any
    live: ServedModel | None = None
    inbox: Inbox | None = None

    @property
    def names(self) -> list[str]:
        """What the items are called."""
        return [row["item"] for row in self.rows]

    def groups(self, min_size: int) -> list[Group]:
        """Return groups among them."""
        from hgkt.unknown import find_groups

        return find_groups(self.model, self.features, min_size) if self.rows else []


@command_of(app, "list")
def list_(model: Path, source: Source) -> None:
    """List items that look like no known class.

    Example: hgkt unknown list --model photo-model --inbox kept
    """
    with _opened(source, model) as found:
        rows = found.rows
    lines = [[row["item"], f"{row['novelty']:.3f}", row["nearest"]] for row in rows]
    document = {"model": model, "n_items": len(rows), "items": rows}
    titles = ["item", "novelty", "nearest class"]
    emit(document, lambda: show_table(titles, lines), counted(len(rows), "unknown item"))


@command_of(app)
def groups(model: Path, source: Source, min_size: MinSize = 5) -> None:
    """Find groups among them that may be a class each, the largest first.

    Example: hgkt unknown groups --model photo-model --items photos/new
    """
    with _opened(source, model) as found:
        names = found.names
        rows: list[dict[str, Any]] = [
            {
                "size": group.size,
                "sureness": group.sureness,
                "example": names[group.example],
                "neighbours": [vars(near) for near in group.neighbours],
                "items": [names[row] for row in group.rows.tolist()],
            }
            for group in found.groups(min_size)
        ]
    lines = []
    for row in rows:
        near = [f"{one['label']} {percent(one['probability'])}" for one in row["neighbours"]]
        lines.append([row["size"], percent(row["sureness"]), ", ".join(near), row["example"]])
    n_grouped, n_items = sum(row["size"] for row in rows), counted(len(names), "item")
    emit(
        {"model": model, "n_items": len(names), "groups": rows},
        lambda: show_table(["items", "apart", "near to", "example"], lines),
        f"{n_grouped} of {n_items} in {counted(len(rows), 'group')}",
    )


@command_of(app)
def make(
    model: Path,
    source: Source,
    group: str,
    name: str,
    text: list[str] | None = None,
    attributes: str | None = None,
    min_size: MinSize = 5,
    reason: str | None = None,
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
    document: dict[str, Any] = {"model": model, "name": name, "warnings": []}
    with _opened(source, model) as found:
        rows = _group_of(found, group, min_size).rows
        if found.live is not None and found.inbox is not None:
            from hgkt.serving.inbox import make_class

            ids = [found.names[row] for row in rows.tolist()]
            origin = own_origin(reason)
            made = make_class(found.live, found.inbox, ids, description, origin=origin)
            before = made.revision - 1
            document |= {"name": made.names[0], "revision": made.revision, "before": before}
            document |= {"warnings": list(made.doubts)}
            undo = f"hgkt classes rollback {before} --model {model}"
        else:
            _make_in_folder(model, description, found.features[rows])
            undo = f"hgkt classes remove {name!r} --model {model}"
    document["n_examples"] = len(rows)
    for doubt in document["warnings"]:
        note(f"warning: {doubt}")
    emit(document, f"{name} has learned from {counted(len(rows), 'item')}; undo: {undo}")


def _make_in_folder(model: Path, description: Any, rows: NDArray[Any]) -> None:
    """Add and grow the class in the model folder, in one step."""
    with held(model) as loaded:
        label, new = label_of(loaded, description.name), None
        if label not in loaded.classes_.tolist():
            new = {label: describer_of(loaded).vectors([description])[0]}
        loaded.grow({label: loaded.example_sums(rows)}, new).save(model)


def _group_of(found: _Unknown, item: str, min_size: int) -> Group:
    """Return the group of an item, whose name may be cut where no other begins so."""
    names = found.names
    exact = [row for row, name in enumerate(names) if name == item]
    rows = exact or [row for row, name in enumerate(names) if name.startswith(item)]
    if len(rows) != 1:
        what = "no unknown item is called" if not rows else "several unknown items begin with"
        raise DataError(f"{what} {item!r}; `hgkt unknown groups` shows an example of each group")
    for group in found.groups(min_size):
        if rows[0] in group.rows:
            return group
    raise DataError(f"item {item!r} is in no group of {min_size} items or more")


@contextmanager
def _opened(source: Source, folder: Path) -> Iterator[_Unknown]:
    """Yield the unknown items; with an inbox also the model with its registry, and the inbox."""
    model = load_model(folder)
    if model.confidence_ is None:
        raise DataError(f"unknown items cannot be told: {NO_THRESHOLDS}")
    if source.items is not None:
        yield _among(source, source.items, model)
        return
    url = source.address(folder, new=True)
    from hgkt.serving.edition import model_identity
    from hgkt.serving.inbox import DATABASE, Inbox, Waiting, existing_address

    place = url if source.inbox == DATABASE else existing_address(str(source.inbox))
    with served(url, model) as live, Inbox(place, model_identity(model)) as inbox:
        edition = live.current()
        waiting = Waiting.of(inbox, edition)
        rows = _records(waiting.items.ids, waiting.novelty, waiting.nearest)
        yield _Unknown(rows, waiting.items.features, edition.model, live, inbox)


def _among(source: Source, path: Path, model: Any) -> _Unknown:
    """Return those of the items of a path that the model rejects."""
    given = read_path(path, model, source)
    answers = model.answers(given.features, reject=source.reject)
    novelty = np.asarray(answers.novelty)
    strange = np.flatnonzero(novelty > 1.0 - source.reject)
    nearest = answers.classes[answers.scores[strange].argmax(axis=1)].tolist()
    names = [given.names[row] for row in strange.tolist()]
    return _Unknown(_records(names, novelty[strange], nearest), given.features[strange], model)


def _records(names: Sequence[str], novelty: Any, nearest: Sequence[Any]) -> list[dict[str, Any]]:
    """Return what JSON says of each item."""
    import pandas as pd

    frame: Any = pd.DataFrame({"item": names, "novelty": novelty, "nearest": nearest})
    return frame.to_dict("records")


# ---------------------------------------------------------------------- what to label next
@with_options
def suggest_command(
    model: Path,
    items: Path,
    n: Annotated[int, typer.Option("-n", "--number", min=1)] = 20,
    *,
    reading: ReaderOptions,
) -> None:
    """Choose items whose labels would help the model most, the best first.

    Give them labels, and the classes grow: hgkt classes grow.

    Example: hgkt suggest --model photo-model --items photos/new -n 20

    Example: hgkt suggest --model text-model --items texts.csv

    Parameters
    ----------
    items : PATH
        Photos or a folder of them; of a model of texts, a table with a column text; or rows of
        features (.npy, .npz, .parquet, .mat).
    n
        How many to choose.
    """
    from hgkt.unknown import suggest

    loaded = load_model(model)
    given = read_path(items, loaded, reading)
    rows: list[dict[str, Any]] = [
        {"item": given.names[one.row], "label": one.label, "probability": one.probability}
        for one in suggest(loaded, given.features, n)
    ]
    n_items = len(given.features)
    document = {"model": model, "n_items": n_items, "items": rows, **given.report()}
    lines = [[row["item"], row["label"], percent(row["probability"])] for row in rows]
    emit(document, lambda: show_table(["item", "seems to be", "probability"], lines))
