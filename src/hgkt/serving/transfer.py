"""Classes go from model to model: descriptions and the sums of their examples.

One plan says what of an old model's classes a new one can take, what it cannot, and why. It is
applied to the registry of the new model, in one change, or to the model itself before it is saved.
The old model's classes are only read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from hgkt._plain import plain
from hgkt._validation import check_class_name, label_of
from hgkt.estimators import METHODS, GZSLClassifier, load_model
from hgkt.exceptions import DataError, first_line
from hgkt.language import ClassDescription, Describer
from hgkt.language.encoder import encoder_difference, uses_description
from hgkt.serving.database import RegistryError
from hgkt.serving.edition import (
    Edition,
    made_with,
    model_identity,
    refuse_unsound,
    refuse_unusable,
    saved_entries,
)
from hgkt.serving.events import (
    ClassEntry,
    ClassEvent,
    ClassExistsError,
    ClassTable,
    Origin,
    add_events,
    edit_events,
    grow_events,
    replay,
    stamp_events,
)
from hgkt.statistics import ExampleSums

if TYPE_CHECKING:
    from hgkt.serving.live_model import ServedModel
    from hgkt.serving.registry import ClassRegistry, KnownModel

TEXT = "text"
_LISTED = 5
_SHOWN = 12  # digits of an identity
_TRIES = 5
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
    >>> facts.plain_part(np.array([0.25, 0.5, 1.0])), facts.n_plain
    (array([0.25, 0.5 ]), 2)
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
        about = plain(dict(made_with(model) if about is None else about))
        width = model.class_attributes_.shape[1]
        blocks = tuple(int(one) for one in about.get("attribute_blocks") or [width])
        kinds = tuple(map(str, about.get("attribute_kinds") or ["att"] * len(blocks)))
        names = tuple(map(str, about.get("attribute_names") or ()))
        n_plain = sum(w for w, kind in zip(blocks, kinds, strict=False) if kind != TEXT)
        return cls(
            name=name,
            method=METHODS.name_of(type(model)) or type(model).__name__,
            n_features=model.n_features_in_,
            n_attributes=width,
            attribute_names=names if len(names) == n_plain else (),
            attribute_blocks=blocks,
            attribute_kinds=kinds,
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

    # ------------------------------------------------------------------ attributes
    @property
    def plain_kinds(self) -> list[tuple[str, int]]:
        """Kind and width of the parts that are not made of text."""
        parts = zip(self.attribute_kinds, self.attribute_blocks, strict=True)
        return [(kind, width) for kind, width in parts if kind != TEXT]

    @property
    def n_plain(self) -> int:
        """How many attributes are not made of text."""
        return sum(width for _, width in self.plain_kinds)

    def plain_part(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what of an attribute vector (n_attributes,) is not made of text."""
        is_plain = [kind != TEXT for kind in self.attribute_kinds]
        return vector[np.repeat(is_plain, self.attribute_blocks)]

    def same_attributes(self, other: ModelFacts) -> bool:
        """Return whether an attribute vector means the same to both models, number by number."""
        if (self.attribute_blocks, self.attribute_kinds) != (
            other.attribute_blocks,
            other.attribute_kinds,
        ):
            return False
        own, others = _keys(self.attribute_names), _keys(other.attribute_names)
        if own and others and own != others:
            return False
        if TEXT not in self.attribute_kinds:
            return True
        if self.encoder is None or other.encoder is None:
            return self.encoder is other.encoder
        return encoder_difference(other.encoder, self.encoder) is None

    # ------------------------------------------------------------------ features
    def feature_difference(self, other: ModelFacts) -> str | None:
        """Say in a clause how the features of another model differ, or return None."""
        if _weights(self.backbone) != _weights(other.backbone):
            return "are features of another backbone"
        if self.features and other.features and self.features != other.features:
            return f"are features {other.features!r}, and the model reads {self.features!r}"
        return None


def _keys(names: Iterable[str]) -> list[str]:
    """Return names as they are compared."""
    return [name.strip().lower() for name in names]


def _weights(backbone: Mapping[str, Any] | None) -> Any:
    """Return what two records of the same backbone have in common."""
    if backbone is None:
        return None
    return {key: backbone.get(key) for key in ("name", "sha256", "preprocessing")}


class Redescriber:
    """Describes stored classes of an old model for a new one.

    A vector that means the same to both is taken as it is. Otherwise what is made of text is made
    anew, from the text that was stored; other attributes go by their names where both models have
    them, and by equal kinds and widths where not.

    Parameters
    ----------
    old : ModelFacts or None
        What is known of the model that the classes were described for.
    new : ModelFacts
        What is known of the one that they are to be described for.

    Examples
    --------
    >>> old = ModelFacts("a", "hgkt", 8, 2, ("black", "red"), (2,), ("att",))
    >>> new = ModelFacts("b", "hgkt", 8, 2, ("red", "black"), (2,), ("att",))
    >>> Redescriber(old, new).describe(ClassEntry("crow", np.array([1.0, 0.0]))).vector
    array([0., 1.])
    """

    def __init__(self, old: ModelFacts | None, new: ModelFacts) -> None:
        self.old, self.new = old, new
        self._same = old is not None and old.same_attributes(new)

    def describe(self, entry: ClassEntry) -> ClassDescription:
        """Return a class as the new model's describer takes it; raise DataError with what is wrong.

        Parameters
        ----------
        entry : ClassEntry
            The class as it is stored.
        """
        row = entry.attributes
        if self.old is not None and len(row) != self.old.n_attributes:
            raise DataError(
                f"it was stored with {len(row)} attributes, and the old model has "
                f"{self.old.n_attributes}"
            )
        if self._same:
            return ClassDescription(entry.name, vector=row)
        if TEXT not in self.new.attribute_kinds:
            return ClassDescription(entry.name, vector=self._numbers(row))
        if self.new.encoder is None or self.new.attribute_kinds.count(TEXT) != 1:
            raise DataError("the model's attributes are made of text, of which it has no record")
        numbers = self._numbers(row) if self.new.n_plain else None
        if not uses_description(self.new.encoder.get("template", "")):
            return ClassDescription(entry.name, vector=numbers, text="")  # its name is all
        if entry.text is None:
            raise DataError("the model reads texts, and it was described without one")
        # Several texts of one class are stored one per line.
        return ClassDescription(entry.name, vector=numbers, text=entry.text.split("\n"))

    def _numbers(self, row: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the attributes that are not made of text, in the new model's order."""
        old, new = self.old, self.new
        if old is None:
            raise DataError(
                "nothing is stored of how its attributes were made; the folder of the old model "
                "tells (--old-model)"
            )
        known = old.plain_part(row)
        if old.attribute_names and new.attribute_names:
            values = dict(zip(_keys(old.attribute_names), known.tolist(), strict=True))
            if missing := _missing(new.attribute_names, old.attribute_names):
                raise DataError(f"it lacks {_listing(missing)}, which the model knows it by")
            return np.array([values[key] for key in _keys(new.attribute_names)])
        if len(known) != new.n_plain:
            raise DataError(f"it has {len(known)} attributes; the model expects {new.n_plain}")
        if old.plain_kinds != new.plain_kinds:
            kinds = " + ".join(kind for kind, _ in old.plain_kinds)
            expected = " + ".join(kind for kind, _ in new.plain_kinds)
            raise DataError(f"its attributes are of the kind {kinds}; the model expects {expected}")
        return known

    def note(self) -> str | None:
        """Say in a sentence which attributes are left out; None where none is."""
        if self._same or self.old is None or not self.new.attribute_names:
            return None
        unused = _missing(self.old.attribute_names, self.new.attribute_names)
        return f"the new model does not use {_listing(unused)}" if unused else None


def _missing(wanted: Sequence[str], known: Sequence[str]) -> list[str]:
    keys = set(_keys(known))
    return [name for name, key in zip(wanted, _keys(wanted), strict=True) if key not in keys]


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
    table : ClassTable
        Its classes.
    facts : ModelFacts or None
        What is known of it.
    """

    model_id: str
    table: ClassTable
    facts: ModelFacts | None

    @property
    def title(self) -> str:
        """What it is called in reports and in the log."""
        name = "" if self.facts is None else f"{self.facts.name} "
        return f"{name}{self.model_id[:_SHOWN]}"

    @classmethod
    def of_model(cls, model: GZSLClassifier, name: str) -> Self:
        """Return the classes that were added to a model itself, with what they learned since."""
        columns = [c for c, group in enumerate(model.class_groups().tolist()) if group != 0]
        entries = [ClassEntry(str(model.classes_[c]), model.class_attributes_[c]) for c in columns]
        classes = {entry.name: entry for entry in entries}
        growth = {}
        if model.can_grow:
            growth = {
                str(n): sums for n, sums in model.grown_examples().items() if str(n) in classes
            }
        table = ClassTable(0, classes, frozenset(), growth)
        return cls(model_identity(model), table, ModelFacts.of(model, name))


def find_model(registry: ClassRegistry, beginning: str) -> KnownModel:
    """Return the one model of a database whose identity begins so; refuse none and several."""
    found = [one for one in registry.known_models() if one.model_id.startswith(beginning.lower())]
    if len(found) == 1:
        return found[0]
    if not found:
        raise DataError(
            f"{registry.place} knows no model whose identity begins with {beginning[:80]!r}; "
            "`hgkt classes models` lists them"
        )
    listed = ", ".join(one.model_id[:_SHOWN] for one in found[:5])
    raise DataError(
        f"{len(found)} models of {registry.place} have identities that begin with "
        f"{beginning[:80]!r}: {listed}; give more of it"
    )


def find_source(url: str, old: str, folder: Path | None = None) -> Source:
    """Return the classes of an old model in a database.

    Parameters
    ----------
    url : str
        The database's address.
    old : str
        The beginning of the model's identity, or its folder.
    folder : Path, optional
        The model's folder, where `old` is its identity: it says what the attributes mean.
    """
    from hgkt.serving.registry import ClassRegistry

    place = Path(old) if Path(old).is_dir() else folder
    model = None if place is None else load_model(place)
    if model is not None and Path(old).is_dir():
        old = model_identity(model)
    with ClassRegistry(url, "") as registry:
        known = find_model(registry, old)
    facts = None if known.facts is None else ModelFacts.from_json(known.facts)
    if model is not None and place is not None:
        if model_identity(model) != known.model_id:
            raise DataError(
                f"the model in {place} is not the one whose classes are to be carried; its "
                f"identity is {model_identity(model)[:_SHOWN]}, not {known.model_id[:_SHOWN]}"
            )
        facts = ModelFacts.of(model, place.resolve().name if facts is None else facts.name)
    return Source(known.model_id, known.table, facts)


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
    learned : tuple of str
        Classes that it has learned itself.
    there : tuple of str
        Classes that it has already, with the same attributes.
    differing : tuple of str
        Classes that it has already, with other attributes, which they keep.
    left_examples : tuple of Left
        Classes whose examples are not carried.
    doubts : tuple of str
        What is doubtful about the classes that move.
    note : str, optional
        What else there is to know.
    """

    source: str
    target: str
    moving: tuple[ClassEntry, ...] = ()
    growing: Mapping[str, ExampleSums] = field(default_factory=dict, repr=False)
    unfit: tuple[Left, ...] = ()
    learned: tuple[str, ...] = ()
    there: tuple[str, ...] = ()
    differing: tuple[str, ...] = ()
    left_examples: tuple[Left, ...] = ()
    doubts: tuple[str, ...] = ()
    note: str | None = None

    def edition(self, served: ServedModel) -> Edition:
        """Return the new model as it would be with what is carried."""
        known = served.current()
        make = _events_of(self, served.saved, known.learned)
        table, grown = replay(known.table, stamp_events(make(known.table), known.revision + 1))
        return known.follow(served.base, table, grown)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values."""
        return vars(self) | {
            "moving": [entry.name for entry in self.moving],
            "growing": {name: sums.n_examples for name, sums in self.growing.items()},
            "unfit": [vars(one) for one in self.unfit],
            "left_examples": [vars(one) for one in self.left_examples],
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
    redescriber = Redescriber(source.facts, facts)
    learned, unfit, described = [], [], {}
    for entry in source.table.entries:
        try:
            name = edition.canonical(entry.name)
            check_class_name(name)
            if name in edition.learned:
                learned.append(name)
                continue
            described[name] = (entry, redescriber.describe(replace(entry, name=name)))
        except DataError as error:
            unfit.append(Left(entry.name, first_line(error)))
    given = {name: description for name, (_, description) in described.items()}
    vectors, refused = _vectors(edition, describe, given)
    same = {
        name: _has_attributes(edition, name, row)
        for name, row in vectors.items()
        if name in edition.columns
    }
    moving = tuple(
        replace(described[name][0], name=name, attributes=row, place=0)
        for name, row in vectors.items()
        if name not in same
    )
    labels = {label_of(edition.model, entry.name): entry.attributes for entry in moving}
    growing, left = _growth(source, edition, facts, {entry.name for entry in moving})
    return Transfer(
        source.title,
        f"{facts.name} {model_identity(edition.model)[:_SHOWN]}",
        moving,
        growing,
        (*unfit, *refused),
        tuple(learned),
        tuple(name for name, equal in same.items() if equal),
        tuple(name for name, equal in same.items() if not equal),
        tuple(left),
        tuple(edition.model.class_doubts(labels)) if labels else (),
        redescriber.note() if source.table.entries else None,
    )


def _vectors(
    edition: Edition, describe: Describe, described: Mapping[str, ClassDescription]
) -> tuple[dict[str, NDArray[np.float64]], list[Left]]:
    """Return the attribute vectors of classes that the model can take, and the others."""

    def make(names: Sequence[str]) -> dict[str, NDArray[np.float64]]:
        found = dict(zip(names, describe([described[name] for name in names]), strict=True))
        new = {name: row for name, row in found.items() if name not in edition.columns}
        if new:
            refuse_unusable(edition.model, new)
        return found

    try:
        return make(list(described)) if described else {}, []
    except DataError:  # one after another, to know which
        vectors: dict[str, NDArray[np.float64]] = {}
        left = []
        for name in described:
            try:
                vectors |= make([name])
            except DataError as error:
                left.append(Left(name, first_line(error)))
        return vectors, left


def _has_attributes(edition: Edition, name: str, row: NDArray[np.float64]) -> bool:
    known = edition.model.class_attributes_[edition.columns[name]]
    return bool(np.allclose(known, row, rtol=_SAME, atol=_SAME))


def _growth(
    source: Source, edition: Edition, facts: ModelFacts, moving: set[str]
) -> tuple[dict[str, ExampleSums], list[Left]]:
    """Return what classes of the new model grow by, and whose examples are left behind.

    A class that has grown there already does not grow by the same examples again.
    """
    growing, left = {}, []
    for old_name, sums in sorted(source.table.growth.items()):
        try:
            name = edition.canonical(old_name)
            if name in edition.n_examples:
                continue
            if old_name in source.table.classes and name in edition.learned:
                raise DataError("the new model has learned the class itself")
            if name not in moving and name not in edition.columns:
                raise DataError("the new model does not have the class")
            _check_examples(sums, edition.model, source.facts, facts)
            growing[name] = sums
        except DataError as error:
            left.append(Left(old_name, first_line(error)))
    return growing, left


def _check_examples(sums: ExampleSums, model: Any, old: ModelFacts | None, new: ModelFacts) -> None:
    """Refuse examples that a model cannot take over."""
    if not model.can_grow:
        raise DataError(f"{type(model).__name__} cannot learn from more examples once it is fitted")
    if sums.n_features != new.n_features:
        raise DataError(
            f"they have {sums.n_features} features, and the model reads {new.n_features}"
        )
    if old is not None and (difference := new.feature_difference(old)) is not None:
        raise DataError(f"they {difference}")
    for feature_map in model._transfer.spaces:
        sums.sums_under(feature_map)


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
    if source.model_id == registry.model_id:
        raise DataError("the old and the new model are the same one, and have the same classes")
    origin = origin or Origin(reason=f"adopted from {source.title}")
    for _ in range(_TRIES):
        edition = served.refresh()
        transfer = plan_transfer(source, edition, facts, served.vectors)
        if before is not None:
            before(transfer)
            before = None
        if transfer.unfit and not skip_unfit:
            raise _unfit(transfer)
        if not transfer.moving and not transfer.growing:
            return transfer, None
        if transfer.growing:
            refuse_unsound(transfer.edition(served).model, next(iter(transfer.growing)))
        registry.remember(facts.to_json())
        make = _events_of(transfer, served.saved, edition.learned)
        with suppress(ClassExistsError):  # somebody was faster; what is left is seen anew
            return transfer, registry.change(make, saved=served.saved, origin=origin)
    raise RegistryError("locked", registry.place)


def _events_of(
    transfer: Transfer, saved: Mapping[str, ClassEntry], learned: frozenset[str]
) -> Callable[[ClassTable], list[ClassEvent]]:
    """Return what makes the events of a transfer, for the table as it is."""

    def make(table: ClassTable) -> list[ClassEvent]:
        adds = add_events(table, transfer.moving, saved) if transfer.moving else []
        if not transfer.growing:
            return adds
        after, _ = replay(table, adds)
        for name in transfer.growing:
            if name in after.growth:
                raise ClassExistsError(name)
        return [*adds, *grow_events(after, transfer.growing, saved, learned)]

    return make


def _unfit(transfer: Transfer) -> DataError:
    first, count = transfer.unfit[0], len(transfer.unfit)
    noun = "class does" if count == 1 else "classes do"
    return DataError(
        f"{count} {noun} not fit the new model, among them {first.name!r}: {first.reason}; nothing "
        "was changed; `hgkt classes migrate --skip-unfit` leaves them out"
    )


@dataclass(frozen=True)
class Pushed:
    """What became of the added classes of a model folder.

    Parameters
    ----------
    added, replaced, same : tuple of str
        Classes that are new in the registry, that have other attributes there now, and that were
        there so.
    revision : int
        The registry's revision afterwards.
    """

    added: tuple[str, ...]
    replaced: tuple[str, ...]
    same: tuple[str, ...]
    revision: int


def push_classes(
    registry: ClassRegistry, model: GZSLClassifier, replace_others: bool, origin: Origin
) -> Pushed:
    """Put the added classes of a model folder into its registry; done again, it changes nothing.

    Parameters
    ----------
    registry : ClassRegistry
        The registry of the model.
    model : GZSLClassifier
        The model as its folder has it.
    replace_others : bool
        Whether classes that the registry has with other attributes get those of the folder;
        otherwise one such class is refused, and nothing is changed.
    origin : Origin
        Who and why.
    """
    own, table = saved_entries(model), registry.table()
    added = {n: entry for n, entry in own.items() if n not in table.classes}
    other = {
        n: replace(entry, text=table.classes[n].text)
        for n, entry in own.items()
        if n in table.classes and not np.array_equal(entry.attributes, table.classes[n].attributes)
    }
    if other and not replace_others:
        raise DataError(
            f"class {next(iter(other))!r} has other attributes in the registry; --replace gives it "
            "those of the folder"
        )

    def make(now: ClassTable) -> list[ClassEvent]:
        adds = add_events(now, list(added.values()), ()) if added else []
        return [*adds, *(edit_events(now, other, ()) if other else [])]

    revision = registry.change(make, origin=origin) if added or other else table.revision
    same = tuple(name for name in own if name not in added and name not in other)
    return Pushed(tuple(added), tuple(other), same, revision)


# ---------------------------------------------------------------------- into a model
@dataclass(frozen=True)
class Carried:
    """What became of the added classes of a model that is replaced.

    Parameters
    ----------
    names : tuple
        Those that were added to the new one.
    left : tuple
        Those that could not be.
    reason : str
        Why not, in a clause.
    notes : tuple of str
        What is not carried along of the others.
    """

    names: tuple[Any, ...] = ()
    left: tuple[Any, ...] = ()
    reason: str = ""
    notes: tuple[str, ...] = ()


def carry_classes(
    old: GZSLClassifier, new: GZSLClassifier, about: Mapping[str, Any], where: Path
) -> Carried:
    """Add the added classes of one model to another, where all of them fit; they grow again.

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
    """
    source = Source.of_model(old, where.name)
    edition = Edition.load(new, ClassTable())
    describer = Describer(dict(about), new.class_attributes_.shape[1])
    facts = ModelFacts.of(new, where.name, about)
    transfer = plan_transfer(source, edition, facts, describer.vectors)
    if transfer.unfit:
        left = (*(one.name for one in transfer.unfit), *(e.name for e in transfer.moving))
        return Carried(left=left, reason=f"{transfer.unfit[0].name}: {transfer.unfit[0].reason}")
    table = {label_of(new, entry.name): entry.attributes for entry in transfer.moving}
    if table:
        new.add_classes(table)
    moved = {entry.name for entry in transfer.moving}
    growing = {label_of(new, n): sums for n, sums in transfer.growing.items() if n in moved}
    notes = [
        f"what {one.name} learned from examples is not carried along: {one.reason}"
        for one in transfer.left_examples
        if one.name in moved
    ]
    if growing:
        new.grow(growing)
    return Carried(names=tuple(table), notes=tuple(notes))
