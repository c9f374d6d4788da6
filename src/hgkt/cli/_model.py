"""What commands that open a model folder share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hgkt.exceptions import DataError

if TYPE_CHECKING:
    from hgkt.data import GZSLDataset
    from hgkt.estimators import GZSLClassifier

ModelOption = Annotated[
    Path, typer.Option("--model", help="Model folder, as `hgkt train` writes it.")
]
TopOption = Annotated[int, typer.Option("--top", min=1, help="How many classes to show.")]


def about_model(model: Any) -> dict[str, Any]:
    """Return what a loaded model was made with."""
    about: dict[str, Any] = getattr(getattr(model, "estimator_", model), "about_", {})
    return about


def label_of(model: GZSLClassifier, text: str) -> Any:
    """Turn text into a label of the kind the model has: a string or a number."""
    kind = model.seen_classes_.dtype.kind
    if kind not in "iuf":
        return text
    try:
        return float(text) if kind == "f" else int(text)
    except ValueError:
        raise DataError(f"the classes of this model are numbers; got {text!r}") from None


def load_matching(
    model: GZSLClassifier, name: str, root: Path | None, features: str | None = None
) -> GZSLDataset:
    """Load a data set with the feature file and the attribute kind that the model was made with.

    Parameters
    ----------
    model : GZSLClassifier
        The model; what it was made with is in its folder.
    name : str
        Name or path of the data set.
    root : Path or None
        Folder of the benchmark's folders.
    features : str, optional
        Another feature file, without suffix; by default the model's.
    """
    from hgkt.data import load_dataset

    about = about_model(model)
    made = str(about.get("features", ""))
    options: dict[str, Any] = {}
    if about.get("layout") == "xlsa17":
        stem = Path(made).stem
        if features is not None and features != stem:
            raise DataError(
                f"the model was trained on the features {stem!r}; {features!r} cannot be mixed in"
            )
        options = {"features": stem, "attributes": about["attributes"]}
    elif features is not None:
        options = {"features": features}
    data = load_dataset(name, root=root, **options)
    if data.features.shape[1] != model.n_features_in_:
        raise DataError(
            f"data set {data.name!r} has {data.features.shape[1]} features a row; "
            f"the model expects {model.n_features_in_}"
        )
    return data
