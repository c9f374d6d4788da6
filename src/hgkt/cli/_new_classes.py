"""Classes that a user describes: the options that say how, and the vectors they become."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hgkt._validation import label_of
from hgkt.cli._inputs import load_matching, read_pairs, read_vector
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    from hgkt.language import Describer


@dataclass
class NewClasses:
    """The options that describe classes: one by its name, those of a file or of a data set.

    Parameters
    ----------
    name
        Name of one new class.
    attributes
        Its attributes: "0.1,0.2,…", or @FILE that holds them.
    attribute : NAME=VALUE
        One of its attributes by name; repeatable, others are 0.
    text
        What it looks like, for a model trained on text; of several the mean is taken.
    parent : GROUP
        The group that the class lies in.
    file
        Many: .csv or .parquet with name and attribute columns, and maybe parent.
    from_data
        All unseen classes of a data set.
    """

    name: str | None = None
    attributes: str | None = None
    attribute: list[str] | None = None
    text: list[str] | None = None
    parent: str | None = None
    file: Path | None = None
    from_data: str | None = None
    root: Path | None = None

    def __post_init__(self) -> None:
        """Refuse options that do not go together."""
        if sum(value is not None for value in (self.name, self.file, self.from_data)) != 1:
            raise DataError("say which class: one of --name, --file or --from-data")
        described = self.attributes is not None or self.attribute or self.text or self.parent
        if self.name is None and described:
            raise DataError(
                "--attributes, --attribute, --text and --parent describe one class; give its --name"
            )
        if self.text and not all(text.strip() for text in self.text):
            raise DataError(
                "--text is empty; say what the class looks like, or leave it out where the name "
                "says it all"
            )
        self._vector = None if self.attributes is None else read_vector(self.attributes)
        self._named = read_pairs(self.attribute) if self.attribute else None

    def table(self, model: Any) -> dict[Any, NDArray[np.float64]]:
        """Return the vectors by label, made as the model's own were."""
        from hgkt.data import read_attribute_file
        from hgkt.language import ClassDescription

        describer = describer_of(model)
        if self.name is not None:
            if not (self.attributes or self.attribute or self.text or describer.accepts_text):
                raise DataError(
                    "--name needs its attributes: either --attributes, or --attribute options"
                )
            said = ClassDescription(self.name, self._vector, self._named, self.text or None)
            table = {self.name: describer.vectors([said])[0]}
        elif self.file is not None:
            file = read_attribute_file(self.file, describer.attribute_names)
            describer.check_made_with(str(self.file), file.encoder, file.blocks, file.kinds)
            table = dict(zip(file.names, file.attributes.astype(np.float64), strict=True))
        else:
            table = _from_data(model, describer, str(self.from_data), self.root)
        return {label_of(model, key): row for key, row in table.items()}

    def keep_texts(self, model: Any, table: dict[Any, NDArray[np.float64]]) -> Any:
        """Have a model keep what was said of a class, for people to read; return the model."""
        from hgkt.language import keep_descriptions

        keep_descriptions(model, table, dict.fromkeys(table, self.text or ""))
        return model

    @property
    def moves_only(self) -> bool:
        """Whether a class is only to lie in another group."""
        described = (self.attributes, self.attribute, self.text)
        return self.parent is not None and all(value is None for value in described)

    def parents(self) -> dict[str, str]:
        """Return the groups of the classes, and of their groups, that have one."""
        from hgkt.items.tables import read_parents

        if self.name is not None:
            return {} if self.parent is None else {self.name: self.parent}
        return {} if self.file is None else read_parents(self.file)


def describer_of(model: Any) -> Describer:
    """Return what turns descriptions into the vectors of a model."""
    from hgkt.language import Describer

    return Describer(model.about_, model.class_attributes_.shape[1])


def _from_data(
    model: Any, describer: Describer, name: str, root: Path | None
) -> dict[str, NDArray[np.float64]]:
    """Return the vectors of a data set's unseen classes, made as the model's were."""
    dataset = load_matching(model, name, root, with_attributes=True)
    about, width = dataset.about, dataset.class_attributes.shape[1]
    if "encoder" in about or describer.accepts_text:
        blocks = about.get("attribute_blocks") or [width]
        kinds = about.get("attribute_kinds") or ["att"] * len(blocks)
        where = f"data set {dataset.name!r}"
        describer.check_made_with(where, about.get("encoder"), blocks, kinds)
    # Classes without rows came with the training.
    there = set(model.classes_.tolist()) & set(dataset.names(dataset.described_classes))
    table = dataset.attributes_of(dataset.unseen_classes)
    return {name: row for name, row in table.items() if name not in there}
