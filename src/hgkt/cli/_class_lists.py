"""`hgkt classes export` and `import`: the classes of a model folder as a table, and back."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from hgkt._files import atomic_file, escape_frame
from hgkt.cli._inputs import about_model, held
from hgkt.cli._new_classes import NewClasses, describer_of
from hgkt.cli._options import JsonOption, ModelOption
from hgkt.cli._output import emit, note, report_change, say
from hgkt.exceptions import ClassWarning, DataError

if TYPE_CHECKING:
    from hgkt.data import AttributeFile

_RTOL, _ATOL = 1e-6, 1e-9  # a table holds single precision


def export(
    model: ModelOption,
    out_file: Annotated[
        Path, typer.Option("--out", help="The table: .csv, or .parquet, which any model can read.")
    ],
    everything: Annotated[
        bool, typer.Option("--all", help="Also the classes that the model was fitted on.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Write the added classes of a model with their attributes to a table, for `import`.

    What a class has learned from examples stays in the model.

    Example: hgkt classes export --model birds --out classes.parquet
    """
    from hgkt.data import write_attribute_file
    from hgkt.estimators import load_model

    if out_file.suffix not in (".csv", ".parquet"):
        raise DataError(f"--out must end in .csv or .parquet; got {str(out_file)!r}")
    loaded = load_model(model)
    if out_file.suffix == ".csv" and describer_of(loaded).accepts_text:
        raise DataError(
            "the attributes of this model are made of text, and only .parquet can say by which "
            "encoder; give --out FILE.parquet"
        )
    file, fitted = _table(loaded, everything)
    if not file.names:
        raise DataError(f"{model} has no added class; --all writes those that it was fitted on")
    if out_file.suffix == ".parquet":
        write_attribute_file(out_file, file, seen=fitted.tolist())
    else:
        _write_csv(out_file, file, fitted)
    document = {"out": out_file, "n_classes": len(file.names), "classes": list(file.names)}
    noun = "class" if len(file.names) == 1 else "classes"
    emit(document, as_json, lambda: say(f"wrote {len(file.names)} {noun} to {out_file}"))


def _table(model: Any, everything: bool) -> tuple[AttributeFile, NDArray[np.bool_]]:
    """Return the classes of a model as a file holds them, and which the model was fitted on."""
    from hgkt.confidence.samples import SEEN
    from hgkt.data import AttributeFile

    columns = model.candidates()
    fitted = model.class_groups()[columns] == SEEN
    chosen = np.ones(len(columns), dtype=bool) if everything else ~fitted
    about = about_model(model)
    rows = model.class_attributes_[columns[chosen]].astype(np.float32)
    blocks = about.get("attribute_blocks") or [rows.shape[1]]
    file = AttributeFile(
        tuple(map(str, model.classes_[columns[chosen]].tolist())),
        rows,
        tuple(blocks),
        tuple(about.get("attribute_kinds") or ["file"] * len(blocks)),
        about.get("encoder"),
        describer_of(model).attribute_names or None,
    )
    return file, fitted[chosen]


def _write_csv(path: Path, file: AttributeFile, fitted: NDArray[np.bool_]) -> None:
    import pandas as pd

    width = file.attributes.shape[1]
    columns = file.attribute_names or [f"a{number}" for number in range(width)]
    frame = pd.DataFrame(file.attributes, columns=list(columns))
    frame.insert(0, "name", list(file.names))
    frame.insert(1, "seen", fitted)
    with atomic_file(path) as scratch:
        escape_frame(frame).to_csv(scratch, index=False)


def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Table as `export` writes it.")],
    model: ModelOption,
    as_json: JsonOption = False,
) -> None:
    """Take the classes of a table, all or none: new ones are added, others get its attributes.

    Classes that the table does not have stay as they are.

    Example: hgkt classes import classes.csv --model birds
    """
    with held(model) as loaded, warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("always", ClassWarning)
        table = NewClasses(file=file).table(loaded)
        known = dict(zip(loaded.classes_.tolist(), loaded.class_attributes_, strict=True))
        new = {name: row for name, row in table.items() if name not in known}
        other = {
            name: row
            for name, row in table.items()
            if name in known and not np.allclose(row, known[name], _RTOL, _ATOL)
        }
        loaded.edit_classes(other).add_classes(new).save(model)
    for doubt in doubts:
        note(f"warning: {doubt.message}")
    changed = {"added": list(new), "edited": list(other), "n_same": len(table) - len(new | other)}
    report_change(
        "imported", list(table), loaded, model, as_json, changed,
        f": {len(new)} added, {len(other)} edited, {changed['n_same']} as they were",
    )  # fmt: skip
