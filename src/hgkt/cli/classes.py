"""`hgkt classes`: the classes of a saved model come, grow, change and go, without retraining."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from hgkt._validation import label_of, label_text
from hgkt.cli import _registry
from hgkt.cli._inputs import NewClasses, describer_of, extract_items, held, list_photos, load_model
from hgkt.cli._options import ReaderOptions, command_of
from hgkt.cli._output import check_suffix, counted, emit, percent, report_change, say, show_table
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    import pandas as pd

    from hgkt.calibration import Costs
    from hgkt.estimators.class_check import ClassCheck

_RTOL, _ATOL = 1e-6, 1e-9  # a table holds single precision
app = typer.Typer(help="List and change the classes of a model.", no_args_is_help=True)


@command_of(app, "list")
def list_(model: Path) -> None:
    """Show the classes of a model: seen, added by attributes, or added and then grown.

    Example: hgkt classes list --model digits-model

    """
    from hgkt.calibration.folds import GROWN

    loaded = load_model(model)
    columns, parents = loaded.candidates(), loaded.parents_
    names, seen = loaded.classes_[columns].tolist(), loaded.seen_mask_[columns].tolist()
    grown = (loaded.class_groups()[columns] == GROWN).tolist()
    entries: list[dict[str, Any]] = [
        {"name": name, "seen": is_seen, "grown": has_grown, "parent": parents.get(name)}
        for name, is_seen, has_grown in zip(names, seen, grown, strict=True)
    ]
    document = {
        "model": model,
        "n_classes": len(entries),
        "n_seen_classes": len(loaded.seen_classes_),
        "attribute_names": loaded.about_.get("attribute_names"),
        "accepts_text": describer_of(loaded).accepts_text,
        "parents": parents,
        "classes": entries,
    }

    rows = []
    for entry in entries:
        kind = "grown" if entry["grown"] else "seen" if entry["seen"] else "added"
        rows.append([entry["name"], kind, entry["parent"]])
    emit(document, lambda: show_table(["name", "kind", "parent"], rows))


@command_of(app)
def add(model: Path, wanted: NewClasses) -> None:
    """Add classes by attributes or words, all or none; the model folder is replaced in one step.

    Example: hgkt classes add --model digits-model --from-data digits

    Example: hgkt classes add --model birds --name tanager --text "a red bird with black wings"

    Example: hgkt classes add --model shop --name jazz --parent apple
    """
    with held(model) as loaded:
        new = wanted.table(loaded)
        loaded.add_classes(new, wanted.parents())
        wanted.keep_texts(loaded, new).save(model)
    costs = loaded.costs(loaded.n_added_ - len(new), loaded.n_added_)
    report_change("added", list(new), loaded, model, costs=costs)


@command_of(app)
def check(model: Path, wanted: NewClasses) -> None:
    """Say what would become of classes if they were added, each on its own; nothing is changed.

    Rivals, classes that would lose images, the accuracy to expect, and what would help.

    Example: hgkt classes check --model digits-model --from-data digits

    Example: hgkt classes check --model birds --name tanager --text "a red bird with black wings"
    """
    loaded = load_model(model)
    parents = wanted.parents()
    checks = [
        loaded.check_class(row, label, parents.get(label))
        for label, row in wanted.table(loaded).items()
    ]
    costs = loaded.costs(loaded.n_added_, loaded.n_added_ + len(checks))
    document = {"model": model, "classes": [found.to_dict() for found in checks], "costs": costs}
    emit(document, lambda: _show_checks(checks, costs))


@command_of(app)
def remove(names: Annotated[list[str], typer.Argument()], model: Path) -> None:
    """Remove classes that were added, all or none.

    Example: hgkt classes remove six --model digits-model

    Parameters
    ----------
    names
        Added classes to remove.
    """
    with held(model) as loaded:
        labels = [label_of(loaded, name) for name in names]
        loaded.remove_classes(labels).save(model)
    report_change("removed", labels, loaded, model)


@dataclass(frozen=True)
class ExampleOptions:
    """What classes learn from; one field per option.

    Parameters
    ----------
    name
        The class; sub-folders of --images, or a column class of --texts, name several.
    images : PATH
        Images of the class, or without --name one sub-folder per class, or a manifest.
    texts : FILE
        Texts instead: a table of text and, without --name, class (.csv, .jsonl).
    features : FILE
        Rows of features of the class instead.
    """

    name: str | None = None
    images: Path | None = None
    texts: Path | None = None
    features: Path | None = None

    def __post_init__(self) -> None:
        """Refuse options that do not go together."""
        if sum(given is not None for given in (self.images, self.texts, self.features)) != 1:
            raise DataError(
                "say what to learn from: one of --images DIR, --texts FILE and --features FILE"
            )
        if self.features is not None and self.name is None:
            raise DataError("--features holds rows of one class; give its --name")

    def read(self, model: Any, reading: ReaderOptions) -> tuple[NDArray[Any], list[Any]]:
        """Return features of examples (n, D), and the class of each, which the model must know."""
        from hgkt.data import read_features
        from hgkt.items import ImageClassifier, TextClassifier
        from hgkt.vision.listing import find_entries

        if self.features is not None:
            rows = read_features(self.features, model.n_features_in_)
            return rows, _labels(model, [str(self.name)] * len(rows))
        if self.texts is not None:
            if reading.weights is not None:
                raise DataError("--weights is for images; this grows classes by texts")
            frame = _labelled_texts(self.texts, self.name)
            labels = _labels(model, frame["class"].tolist())
            return TextClassifier(model, reading.device).features(frame["text"]), labels
        place = Path(str(self.images))
        entries = find_entries(place) if self.name is None else list_photos([place], self.name)
        labels = _labels(model, [entry.label for entry in entries])
        found = extract_items(entries, ImageClassifier(model, reading.device, reading.weights))
        label_by_id = dict(zip((entry.id for entry in entries), labels, strict=True))
        return found.features, [label_by_id[item] for item in found.names]


def _labels(model: Any, names: Sequence[str]) -> list[Any]:
    """Return the classes that go by some names; refuse one that the model does not know."""
    labels = [label_of(model, name) for name in names]
    for label in dict.fromkeys(labels):
        if label not in model.classes_.tolist():
            raise DataError(
                f"class {label_text(label)} is unknown to this model; add it with `hgkt classes "
                "add` before it grows"
            )
    return labels


def _labelled_texts(path: Path, name: str | None) -> pd.DataFrame:
    """Return the texts of a table with their class, which is `name` where one is given."""
    from hgkt.data.tables import check_column, row_text
    from hgkt.items import read_text_table

    frame = read_text_table(path)
    if name is not None:
        frame["class"] = name
    check_column(frame, path, "class", "the class of each text, or --name CLASS,")
    for row, pair in enumerate(zip(frame["class"], frame["text"], strict=True)):
        if not all(isinstance(one, str) and one.strip() for one in pair):
            raise DataError(f"{row_text(path, row)} of {path} lacks a text or a class")
    if frame.empty:
        raise DataError(f"{path} holds no text")
    return frame


@command_of(app)
def grow(model: Path, examples: ExampleOptions, reading: ReaderOptions) -> None:
    """Let classes learn from examples, without retraining; the examples are not kept.

    Example: hgkt classes grow --model birds --name tanager --images photos/tanager

    Example: hgkt classes grow --model intents --texts more.csv

    Example: hgkt classes grow --model digits-model --name six --features rows.npy
    """
    with held(model) as loaded:
        if not loaded.can_grow:
            loaded.grow({})  # says which method can
        rows, labels = examples.read(loaded, reading)
        members: dict[Any, list[int]] = {}
        for row, label in enumerate(labels):
            members.setdefault(label, []).append(row)
        loaded.grow({label: loaded.example_sums(rows[own]) for label, own in members.items()})
        loaded.save(model)
    n_examples = {label: len(own) for label, own in members.items()}
    how = f" by {counted(len(labels), 'example')}"
    report_change("grown", list(members), loaded, model, how, n_examples=n_examples)


@command_of(app)
def edit(model: Path, wanted: NewClasses) -> None:
    """Give classes that were added other attributes, all or none; what they learned stays.

    With --name and --parent alone any class moves to another group, and keeps its attributes.

    Example: hgkt classes edit --model birds --name tanager --text "a red bird with black wings"
    """
    with held(model) as loaded:
        new = {} if wanted.moves_only else wanted.table(loaded)
        groups = wanted.parents()
        for name in groups if wanted.name is not None else ():
            loaded.column_of(name)  # the class must be there
        loaded.edit_classes(new).set_parents(groups)
        wanted.keep_texts(loaded, new).save(model)
    report_change("edited", list(new or groups), loaded, model)


@command_of(app)
def rename(
    old: Annotated[str, typer.Argument()], new: Annotated[str, typer.Argument()], model: Path
) -> None:
    """Give a class another name; any class may be renamed.

    Example: hgkt classes rename six half-dozen --model digits-model

    Parameters
    ----------
    old
        The class.
    new
        Its new name, which must be free.
    """
    with held(model) as loaded:
        labels = {label_of(loaded, old): label_of(loaded, new)}
        loaded.rename_classes(labels).save(model)
    report_change("renamed", [f"{old} to {new}"], loaded, model)


@command_of(app)
def export(
    model: Path,
    out_file: Annotated[Path, typer.Option("--out")],
    everything: Annotated[bool, typer.Option("--all")] = False,
) -> None:
    """Write the added classes of a model with their attributes to a table, for `import`.

    What a class has learned from examples stays in the model.

    Example: hgkt classes export --model birds --out classes.parquet

    Parameters
    ----------
    out_file
        The table: .csv, or .parquet, which any model can read.
    everything
        Also the classes that the model was fitted on.
    """
    from hgkt.calibration.folds import SEEN
    from hgkt.data.attributes import AttributeFile, write_attribute_csv, write_attribute_file

    check_suffix(out_file, ".csv", ".parquet")
    loaded = load_model(model)
    describer = describer_of(loaded)
    if out_file.suffix == ".csv" and describer.accepts_text:
        raise DataError(
            "the attributes of this model are made of text, and only .parquet can say by which "
            "encoder; give --out FILE.parquet"
        )
    columns = loaded.candidates()
    fitted = loaded.class_groups()[columns] == SEEN
    chosen = columns if everything else columns[~fitted]
    names = tuple(map(str, loaded.classes_[chosen].tolist()))
    if not names:
        raise DataError(f"{model} has no added class; --all writes those that it was fitted on")
    about, rows = loaded.about_, loaded.class_attributes_[chosen].astype(np.float32)
    blocks = tuple(about.get("attribute_blocks") or [rows.shape[1]])
    kinds = tuple(about.get("attribute_kinds") or ["file"] * len(blocks))
    file = AttributeFile(
        names, rows, blocks, kinds, about.get("encoder"), describer.attribute_names or None
    )
    write = write_attribute_csv if out_file.suffix == ".csv" else write_attribute_file
    write(out_file, file, seen=np.isin(chosen, columns[fitted]).tolist(), parents=loaded.parents_)
    document = {"out": out_file, "n_classes": len(names), "classes": names}
    emit(document, f"wrote {counted(len(names), 'class')} to {out_file}")


@command_of(app, "import")
def import_(file: Annotated[Path, typer.Argument()], model: Path) -> None:
    """Take the classes of a table, all or none: new ones are added, others get its attributes.

    Classes that the table does not have stay as they are.

    Example: hgkt classes import classes.csv --model birds

    Parameters
    ----------
    file : FILE
        Table as `export` writes it.
    """
    with held(model) as loaded:
        wanted = NewClasses(file=file)
        table = wanted.table(loaded)
        known = dict(zip(loaded.classes_.tolist(), loaded.class_attributes_, strict=True))
        new = {name: row for name, row in table.items() if name not in known}
        other = {
            name: row
            for name, row in table.items()
            if name in known and not np.allclose(row, known[name], _RTOL, _ATOL)
        }
        loaded.edit_classes(other).add_classes(new).set_parents(wanted.parents()).save(model)
    n_same = len(table) - len(new | other)
    how = f": {len(new)} added, {len(other)} edited, {n_same} as they were"
    changed: dict[str, Any] = {"added": list(new), "edited": list(other), "n_same": n_same}
    report_change("imported", list(table), loaded, model, how, **changed)


app.add_typer(_registry.app)


def _show_checks(checks: Sequence[ClassCheck], costs: Costs | None) -> None:
    """Print the sentences of one check and its rivals; of several, one line each."""
    if len(checks) == 1:
        (check,) = checks
        say(*check.sentences())
        rows = [[r.label, percent(r.share), f"{r.similarity:.2f}"] for r in check.rivals]
        if rows and (rest := check.elsewhere()) is not None:
            rows.append(["all further classes", percent(rest), ""])
        if rows:
            show_table(["rival", "share of its images", "similarity of attributes"], rows)
        return
    rows = [
        [
            check.name,
            percent(check.accuracy),
            _with_shares(check.rivals[:3]),
            percent(check.elsewhere(3)),
            _with_shares(check.losses),
            percent(check.distance),
            ", ".join(map(str, check.duplicates)),
        ]
        for check in checks
    ]
    columns = ["class", "accuracy", "rivals", "elsewhere", "would lose", "distance", "same as"]
    show_table(columns, rows)
    say(
        "accuracy, rivals, elsewhere: where the images of the class go, 100 % in all",
        "would lose: known classes, and the share of their images that it would take",
        "distance: share of the seen classes that lie nearer to what is known",
        *(f"{check.name}: {check.say_strays()}" for check in checks if check.strays),
    )
    if costs is not None:
        say(f"together: {costs.sentence()}")
    say(*dict.fromkeys(reason for check in checks for reason in check.reasons))


def _with_shares(others: Sequence[Any]) -> str:
    """Return the names of classes, each with its share of images where that is known."""
    return ", ".join(
        str(one.label) if one.share is None else f"{one.label} {percent(one.share)}"
        for one in others
    )
