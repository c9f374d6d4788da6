"""`hgkt explain`: from which seen classes a class, or a prediction, was made."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hgkt._validation import label_of
from hgkt.cli._inputs import load_model
from hgkt.cli._options import with_options
from hgkt.cli._output import counted, emit, say, show_table
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    from hgkt.estimators import Contribution

_BAR_WIDTH = 24


@with_options
def explain_command(
    model: Path,
    class_name: Annotated[str | None, typer.Option("--class")] = None,
    input_file: Annotated[Path | None, typer.Option("--input")] = None,
    row: Annotated[int, typer.Option(min=0)] = 0,
    top: Annotated[int, typer.Option(min=1)] = 5,
    as_json: bool = False,
) -> None:
    """Show from which seen classes a class, or an answer, was made.

    Example: hgkt explain --model model --class six

    Example: hgkt explain --model model --input features.npy --row 3

    Parameters
    ----------
    class_name : NAME
        Explain how a class was made.
    input_file : FILE
        Features (.npy, .npz, .csv, .parquet, .mat); photos and texts are explained by `hgkt
        classify --explain`.
    row : N
        Row of --input to explain, counted from 0.
    top : N
        How many classes to show.
    """
    if (class_name is None) == (input_file is None):
        raise DataError("say what to explain: either --class NAME or --input FILE with --row")
    loaded = load_model(model)
    if not hasattr(loaded, "explain_class"):
        kind = type(loaded).__name__
        raise DataError(f"{kind} does not explain itself; only hgkt and hgkt-network do")
    if input_file is not None:
        _explain_row(loaded, input_file, row, top, as_json)
    else:
        _explain_class(loaded, label_of(loaded, str(class_name)), top, as_json)


def _explain_class(model: Any, label: Any, top: int, as_json: bool) -> None:
    explanation = model.explain_class(label)
    document = explanation.to_dict()
    document["sources"] = document["sources"][:top]
    kind = "seen" if explanation.seen else "added by its attributes"

    def render() -> None:
        say(f"{label} ({kind}) was made from")
        _print_bars(_beside(explanation.description, explanation.sources[:top]), "weight")
        _print_members(model)

    emit(document, as_json, render)


def _explain_row(model: Any, path: Path, row: int, top: int, as_json: bool) -> None:
    from hgkt.data import read_features

    features = read_features(path, model.n_features_in_)
    if row >= len(features):
        raise DataError(f"--row {row} is beyond {path}, which has rows 0 to {len(features) - 1}")
    explanation = model.explain(features[row : row + 1], n_runner_ups=top)[0]
    document = {"row": row, **explanation.to_dict()}
    document["pulls"] = document["pulls"][:top]

    def render() -> None:
        say(
            f"row {row} is {explanation.label}: score {explanation.score:.4g}, "
            f"{explanation.margin:.4g} ahead of the next",
            "runner-ups",
        )
        _print_bars(explanation.runner_ups, "score")
        say(f"seen classes behind {explanation.label}")
        _print_bars(_beside(explanation.description, explanation.pulls[:top]), "pull")

    emit(document, as_json, render)


def _beside(description: float, parts: tuple[Contribution, ...]) -> tuple[Contribution, ...]:
    """Return what came from the description of a class, where any did, before the seen classes."""
    from hgkt.estimators import Contribution

    return (Contribution("(its description)", description), *parts) if description else parts


def _print_members(model: Any) -> None:
    """Print the members of an ensemble, one line each."""
    table = getattr(model, "member_table", lambda: None)()
    if table is not None:
        header, rows = table
        say(f"by {counted(len(rows), 'member')}")
        show_table(header, rows)


def _print_bars(parts: tuple[Contribution, ...], name: str) -> None:
    unit = _BAR_WIDTH / (max((abs(part.weight) for part in parts), default=0.0) or 1.0)
    bars = [("█" if p.weight >= 0 else "░") * round(unit * abs(p.weight)) for p in parts]
    rows = [(p.label, f"{p.weight:+.4f}", bar) for p, bar in zip(parts, bars, strict=True)]
    show_table(("class", name, ""), rows)
