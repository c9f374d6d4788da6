"""Classes go from model to model: descriptions and the sums of their examples.

One plan says what of an old model's classes a new one can take, what it cannot, and why. It is
applied to the registry of the new model, in one change, or to the model itself before it is saved.
The old model's classes are only read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from hgkt._plain import plain
from hgkt._validation import check_class_name, label_of
from hgkt.calibration.folds import SEEN
from hgkt.estimators import METHODS, GZSLClassifier, load_model
from hgkt.exceptions import DataError, first_line
from hgkt.language import ClassDescription, Describer
from hgkt.language.encoder import encoder_difference, uses_description
from hgkt.serving.database import RegistryError
from hgkt.serving.edition import Edition, made_with, model_identity, refuse_unsound, refuse_unusable
from hgkt.serving.events import (
    ClassEntry,
    ClassExistsError,
    ClassTable,
    FolderClasses,
    Origin,
    add_events,
    replay,
    stamp_events,
)
from hgkt.serving.live_model import ServedModel
from hgkt.serving.registry import ClassRegistry, KnownModel, Planned
from hgkt.statistics import ExampleSums

TEXT = "text"
_LISTED = 5
_SHOWN = 12  # digits of an identity
_TRIES = 5
_THERE = "it is there already"
_SAME = 1e-6  # an encoder repeats itself up to the seventh digit
Describe = Callable[[Sequence[ClassDescription]], Iterable[NDArray[np.float64]]]


# ---------------------------------------------------------------------- what is known of models
@dataclass(frozen=True)
class ModelFacts:
    """How a model reads classes and instances.

    Parameters
    ----------
    name : str
        What it was called when it was served last.
    method : str
        The method that learned it.
    n_features, n_attributes : int
        Widths of instances and of classes.
    attribute_names : tuple of str
        Names of the attributes that are not made of text; empty where there are none.
    attribute_blocks : tuple of int
        Widths of the parts of an attribute vector.
    attribute_kinds : tuple of str
        What each part is; "text" is made by the encoder.
    encoder, backbone : mapping, optional
        Records of the sentence encoder and of what made the features.
    features : str, optional
        Name of the feature file, where the data set had several.

    Examples
    --------
    >>> facts = ModelFacts("birds", "hgkt", 8, 3, ("black", "red"), (2, 1), ("att", "text"))
    >>> facts.plain_part(np.array([0.25, 0.5, 1.0])), facts.plain_parts
    (array([0.25, 0.5 ]), '2 of the kind att')
    >>> ModelFacts.from_json(facts.to_json()) == facts
    True
    """

    name: str
    method: str
    n_features: int
    n_attributes: int
    attribute_names: tuple[str, ...] = ()
    attribute_blocks: tuple[int, ...] = ()
    attribute_kinds: tuple[str, ...] = ()
    encoder: Mapping[str, Any] | None = None
    backbone: Mapping[str, Any] | None = None
    features: str | None = None

    @classmethod
    def of(cls, model: GZSLClassifier, name: str, about: Mapping[str, Any] | None = None) -> Self:
        """Return what a model says of itself: what it was made with, where that is not given."""
        about = plain(made_with(model) if about is None else dict(about))
        width = model.class_attributes_.shape[1]
        blocks = tuple(about.get("attribute_blocks") or [width])
        return cls(
            name=name,
            method=METHODS.name_of(type(model)) or type(model).__name__,
            n_features=model.n_features_in_,
            n_attributes=width,
            attribute_names=Describer(about, width).attribute_names,
            attribute_blocks=blocks,
            attribute_kinds=tuple(about.get("attribute_kinds") or ["att"] * len(blocks)),
            encoder=about.get("encoder"),
            backbone=about.get("backbone"),
            features=about.get("features"),
        )

    def to_json(self) -> str:
        """Return the facts as text, the same for the same facts."""
        return msgspec.json.encode(self, order="deterministic").decode()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote."""
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.DecodeError:
            raise DataError("what the registry keeps of a model cannot be read") from None

    @property
    def plain_parts(self) -> str:
        """The parts that are not made of text, in words; empty where all are."""
        parts = zip(self.attribute_blocks, self.attribute_kinds, strict=True)
        return " + ".join(f"{width} of the kind {kind}" for width, kind in parts if kind != TEXT)

    def plain_part(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what of an attribute vector (n_attributes,) is not made of text."""
        is_plain = [kind != TEXT for kind in self.attribute_kinds]
        return vector[np.repeat(is_plain, self.attribute_blocks)]

    @property
    def keys(self) -> list[str]:
        """Names of the attributes as they are compared."""
        return [name.strip().lower() for name in self.attribute_names]

    def names_beyond(self, other: ModelFacts) -> list[str]:
        """Return the names of attributes that another model does not have."""
        known, pairs = set(other.keys), zip(self.attribute_names, self.keys, strict=True)
        return [name for name, key in pairs if key not in known]

    def same_attributes(self, other: ModelFacts) -> bool:
        """Return whether an attribute vector means the same to both models, number by number."""
        parts = (self.attribute_blocks, self.attribute_kinds)
        if parts != (other.attribute_blocks, other.attribute_kinds):
            return False
        if self.keys and other.keys and self.keys != other.keys:
            return False
        if TEXT not in self.attribute_kinds:
            return True
        if other.encoder is None:
            return self.encoder is None
        return encoder_difference(other.encoder, self.encoder) is None


def redescribe(entry: ClassEntry, old: ModelFacts, new: ModelFacts) -> ClassDescription:
    """Return a stored class of an old model as the describer of a new one takes it.

    A vector that means the same to both is taken as it is. Otherwise what is made of text is made
    anew, from the text that was stored; other attributes go by their names where both models have
    them, and by equal kinds and widths where not. Raises DataError with what is wrong.

    Parameters
    ----------
    entry : ClassEntry
        The class as it is stored.
    old, new : ModelFacts
        What is known of the model that it was described for, and of the one that it is to be
        described for.

    Examples
    --------
    >>> old = ModelFacts("a", "hgkt", 8, 2, ("black", "red"), (2,), ("att",))
    >>> new = ModelFacts("b", "hgkt", 8, 2, ("red", "black"), (2,), ("att",))
    >>> redescribe(ClassEntry("crow", np.array([1.0, 0.0])), old, new).vector
    array([0., 1.])
    """
    row = entry.attributes
    if len(row) != old.n_attributes:
        raise DataError(
            f"it was stored with {len(row)} attributes, and the old model has {old.n_attributes}"
        )
    if old.same_attributes(new):
        return ClassDescription(entry.name, vector=row)
    numbers = _numbers(row, old, new) if new.plain_parts else None
    if TEXT not in new.attribute_kinds:
        return ClassDescription(entry.name, vector=numbers)
    if new.encoder is None or new.attribute_kinds.count(TEXT) != 1:
        raise DataError("the model's attributes are made of text, of which it has no record")
    if not uses_description(new.encoder.get("template", "")):
        return ClassDescription(entry.name, vector=numbers, text="")  # its name is all
    if entry.text is None:
        raise DataError("the model reads texts, and it was described without one")
    # Several texts of one class are stored one per line.
    return ClassDescription(entry.name, vector=numbers, text=entry.text.split("\n"))


def _numbers(row: NDArray[np.float64], old: ModelFacts, new: ModelFacts) -> NDArray[np.float64]:
    """Return the attributes that are not made of text, in the new model's order."""
    known = old.plain_part(row)
    if old.attribute_names and new.attribute_names:
        if missing := new.names_beyond(old):
            raise DataError(f"it lacks {_listing(missing)}, which the model knows it by")
        values = dict(zip(old.keys, known.tolist(), strict=True))
        return np.array([values[key] for key in new.keys])
    if old.plain_parts != new.plain_parts:
        raise DataError(
            f"its attributes are {old.plain_parts}; the model expects {new.plain_parts}"
        )
    return known


def _listing(names: Sequence[str]) -> str:
    noun = "the attribute" if len(names) == 1 else f"{len(names)} attributes:"
    more = "…" if len(names) > _LISTED else ""
    return f"{noun} {', '.join(map(repr, names[:_LISTED]))}{more}"


# ---------------------------------------------------------------------- sources
@dataclass(frozen=True)
class Source:
    """Where classes come from.

    Parameters
    ----------
    model_id : str
        The old model's identity.
    facts : ModelFacts
        What is known of it.
    classes : tuple of ClassEntry
        The classes that were added to it.
    growth : mapping of str to ExampleSums
        What classes of it, added or learned, have grown by.
    """

    model_id: str
    facts: ModelFacts
    classes: tuple[ClassEntry, ...]
    growth: Mapping[str, ExampleSums]

    @property
    def title(self) -> str:
        """What it is called in reports and in the log."""
        return _title(self.facts, self.model_id)

    @classmethod
    def of_model(cls, model: GZSLClassifier, name: str, table: ClassTable | None = None) -> Self:
        """Return the classes that a model has in its folder and in a table of its registry."""
        edition = Edition.load(model, table or ClassTable())
        rows, groups = edition.model.class_attributes_, edition.model.class_groups()
        classes = tuple(
            replace(edition.entry(edition.names[column]), attributes=rows[column])
            for column in edition.order.tolist()
            if groups[column] != SEEN
        )
        growth = dict(edition.table.growth)
        if model.can_grow:  # of added classes all that they have grown by, in the folder as well
            grown = edition.model.grown_examples().items()
            growth |= {str(label): sums for label, sums in grown}
        return cls(model_identity(model), ModelFacts.of(model, name), classes, growth)


def _title(facts: ModelFacts, model_id: str) -> str:
    return f"{facts.name} {model_id[:_SHOWN]}"


def find_model(registry: ClassRegistry, beginning: str) -> KnownModel:
    """Return the one model of a database whose identity begins so; refuse none and several."""
    found = [one for one in registry.known_models() if one.model_id.startswith(beginning.lower())]
    if len(found) != 1:
        known = f"{len(found)} models" if found else "no model"
        raise DataError(
            f"{registry.place} knows {known} whose identity begins with {beginning[:80]!r}; "
            "`hgkt classes models` lists them"
        )
    return found[0]


def find_source(url: str, old: str) -> Source:
    """Return the classes of an old model: of its folder, if that is given, and of a database.

    Parameters
    ----------
    url : str
        The database's address.
    old : str
        The model's folder, or the beginning of its identity.
    """
    if Path(old).is_dir():
        model = load_model(Path(old))
        with ClassRegistry(url, model_identity(model)) as registry:
            return Source.of_model(model, Path(old).resolve().name, registry.table())
    with ClassRegistry(url, "") as registry:
        known = find_model(registry, old)
    if known.facts is None:
        raise DataError(
            f"nothing is stored of how the classes of model {known.model_id[:_SHOWN]} were "
            "described; give the folder of the model"
        )
    facts, table = ModelFacts.from_json(known.facts), known.table
    return Source(known.model_id, facts, table.entries, table.growth)


# ---------------------------------------------------------------------- plans
@dataclass(frozen=True)
class Left:
    """Something that is not carried, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Transfer:
    """What becomes of the classes of an old model in a new one.

    Parameters
    ----------
    source, target : str
        The old model, and the new one.
    moving : tuple of ClassEntry
        Classes that are added to the new model, as it reads them.
    growing : mapping of str to ExampleSums
        What classes of the new model grow by.
    unfit : tuple of Left
        Classes that the new model cannot take.
    present : tuple of Left
        Classes that it has already, and how.
    left_examples : tuple of Left
        Classes whose examples are not carried.
    doubts : tuple of str
        What is doubtful about the classes that move.
    """

    source: str
    target: str
    moving: tuple[ClassEntry, ...] = ()
    growing: Mapping[str, ExampleSums] = field(default_factory=dict, repr=False)
    unfit: tuple[Left, ...] = ()
    present: tuple[Left, ...] = ()
    left_examples: tuple[Left, ...] = ()
    doubts: tuple[str, ...] = ()

    def events(self, folder: FolderClasses, table: ClassTable) -> Planned:
        """Return the events that change a table so; nothing grows by the same examples twice."""
        for name in self.growing.keys() & table.growth.keys():
            raise ClassExistsError(name)
        return add_events(table, folder, self.moving, self.growing), self.doubts

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values."""
        return vars(self) | {
            "moving": [entry.name for entry in self.moving],
            "growing": {name: sums.n_examples for name, sums in self.growing.items()},
        }


def plan_transfer(
    source: Source, edition: Edition, facts: ModelFacts, describe: Describe
) -> Transfer:
    """Say what becomes of the classes of an old model in a new one; nothing is written.

    Parameters
    ----------
    source : Source
        The old model's classes.
    edition : Edition
        The new model with its own.
    facts : ModelFacts
        What is known of the new model.
    describe : callable
        Makes attribute vectors of descriptions, as the new model reads them.
    """
    model, moving = edition.model, dict[str, ClassEntry]()
    unfit, present = [], []
    given, descriptions = [], []
    for entry in source.classes:
        try:
            name = edition.canonical(entry.name)
            check_class_name(name)
            if name in edition.learned:
                present.append(Left(name, "the new model has learned it"))
                continue
            entry = replace(entry, name=name, place=0)
            descriptions.append(redescribe(entry, source.facts, facts))
            given.append(entry)
        except DataError as error:
            unfit.append(Left(entry.name, first_line(error)))
    for entry, row in zip(given, _described(describe, descriptions), strict=True):
        name = entry.name
        try:
            if isinstance(row, DataError):
                raise row
            if name in edition.columns:
                known = model.class_attributes_[edition.columns[name]]
                same = np.allclose(known, row, rtol=_SAME, atol=_SAME)
                present.append(Left(name, _THERE if same else f"{_THERE} with other attributes"))
            else:
                refuse_unusable(model, {name: row})
                moving[name] = replace(entry, attributes=row)
        except DataError as error:
            unfit.append(Left(entry.name, first_line(error)))
    doubts = []
    if moving:
        doubts += model.class_doubts(_vectors(model, moving.values()))
        if facts.attribute_names and (unused := source.facts.names_beyond(facts)):
            doubts.append(f"the new model does not use {_listing(unused)}")
    growing, left = _growth(source, edition, facts, moving.keys())
    return Transfer(
        source.title,
        _title(facts, model_identity(model)),
        tuple(moving.values()),
        growing,
        tuple(unfit),
        tuple(present),
        tuple(left),
        tuple(doubts),
    )


def _described(
    describe: Describe, descriptions: Sequence[ClassDescription]
) -> list[NDArray[np.float64] | DataError]:
    """Return the vector of each description, or what is wrong with it.

    They are made together, since an encoder is faster so; around a mistake in ever smaller parts.
    """
    try:
        return list(describe(descriptions)) if descriptions else []
    except DataError as error:
        if len(descriptions) == 1:
            return [error]
        half = len(descriptions) // 2
        parts = descriptions[:half], descriptions[half:]
        return [row for part in parts for row in _described(describe, part)]


def _vectors(model: GZSLClassifier, entries: Iterable[ClassEntry]) -> dict[Any, Any]:
    """Return attribute vectors by class, as the model labels classes."""
    return {label_of(model, entry.name): entry.attributes for entry in entries}


def _growth(
    source: Source, edition: Edition, facts: ModelFacts, moving: Collection[str]
) -> tuple[dict[str, ExampleSums], list[Left]]:
    """Return what classes of the new model grow by, and whose examples are left behind.

    A class that has grown there already does not grow by the same examples again.
    """
    growing, left = {}, []
    added = {entry.name for entry in source.classes}
    for old_name, sums in sorted(source.growth.items()):
        try:
            name = edition.canonical(old_name)
            if name in edition.n_examples:
                continue
            if old_name in added and name in edition.learned:
                raise DataError("the new model has learned the class itself")
            if name not in moving and name not in edition.columns:
                raise DataError("the new model does not have the class")
            _check_examples(sums, edition.model, source.facts, facts)
            growing[name] = sums
        except DataError as error:
            left.append(Left(old_name, first_line(error)))
    return growing, left


def _check_examples(sums: ExampleSums, model: Any, old: ModelFacts, new: ModelFacts) -> None:
    """Refuse examples that a model cannot take over."""
    if not model.can_grow:
        raise DataError(f"{type(model).__name__} cannot learn from more examples once it is fitted")
    if sums.n_features != new.n_features:
        raise DataError(f"they have {sums.n_features} features; the model reads {new.n_features}")
    if _weights(old.backbone) != _weights(new.backbone):
        raise DataError("they are features of another backbone")
    if old.features and new.features and old.features != new.features:
        raise DataError(f"they are features {old.features!r}; the model reads {new.features!r}")
    for feature_map in model._transfer.spaces:
        sums.sums_under(feature_map)


def _weights(backbone: Mapping[str, Any] | None) -> Any:
    """Return what two records of the same backbone have in common."""
    return backbone and [backbone.get(key) for key in ("name", "sha256", "preprocessing")]


# ---------------------------------------------------------------------- into a registry
def adopt_classes(
    source: Source,
    served: ServedModel,
    facts: ModelFacts,
    skip_unfit: bool = False,
    origin: Origin | None = None,
    before: Callable[[Transfer], object] | None = None,
) -> tuple[Transfer, int | None]:
    """Have a model take over the classes of another, all of them in one change.

    What it has already stays, so that doing it again adds nothing.

    Parameters
    ----------
    source : Source
        The old model's classes.
    served : ServedModel
        The new model.
    facts : ModelFacts
        What is known of the new model.
    skip_unfit : bool
        Whether to leave out classes that do not fit; otherwise one such class stops it all.
    origin : Origin, optional
        Who and why; by default for the reason that they were adopted.
    before : callable, optional
        Called with what will be done.

    Returns
    -------
    transfer : Transfer
        What was done.
    revision : int or None
        The change; None where there was nothing to do.
    """
    registry = served.registry
    origin = origin or Origin(reason=f"adopted from {source.title}")
    for _ in range(_TRIES):
        edition = served.refresh()
        transfer = plan_transfer(source, edition, facts, served.vectors)
        if before is not None:
            before(transfer)
        if transfer.unfit and not skip_unfit:
            first, count = transfer.unfit[0], len(transfer.unfit)
            raise DataError(
                f"{count} {'class does' if count == 1 else 'classes do'} not fit the new model, "
                f"among them {first.name!r}: {first.reason}; nothing was changed; "
                "`hgkt classes migrate --skip-unfit` leaves them out"
            )
        if not transfer.moving and not transfer.growing:
            return transfer, None
        make = partial(transfer.events, edition.folder)
        if transfer.growing:
            log = stamp_events(make(edition.table)[0], edition.revision + 1)
            trial = edition.follow(served.base, *replay(edition.table, log))
            refuse_unsound(trial.model, next(iter(transfer.growing)))
        registry.remember(facts.to_json())
        with suppress(ClassExistsError):  # somebody was faster; what is left is seen anew
            return transfer, registry.change(make, origin=origin).revision
    raise RegistryError("locked", registry.place)


# ---------------------------------------------------------------------- into a model
def carry_classes(
    old: GZSLClassifier, new: GZSLClassifier, about: Mapping[str, Any], where: Path
) -> Transfer:
    """Add the added classes of one model to another, if all of them fit; they grow again.

    Parameters
    ----------
    old : GZSLClassifier
        The model that is replaced.
    new : GZSLClassifier
        The model to add them to; classes that it has already are passed over.
    about : mapping
        What the new one was made with.
    where : Path
        The folder of the old one, for messages.

    Returns
    -------
    Transfer
        What was done; nothing, if a class was unfit.
    """
    source = Source.of_model(old, where.name)
    describer = Describer(dict(about), new.class_attributes_.shape[1])
    facts = ModelFacts.of(new, where.name, about)
    transfer = plan_transfer(source, Edition.load(new, ClassTable()), facts, describer.vectors)
    if not transfer.unfit:
        if transfer.moving:
            new.add_classes(_vectors(new, transfer.moving))
        if transfer.growing:
            new.grow({label_of(new, name): sums for name, sums in transfer.growing.items()})
    return transfer
