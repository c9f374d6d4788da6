"""`hgkt explain`: from which seen classes a class, or a prediction, was made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from hgkt._validation import label_of
from hgkt.cli._inputs import load_model
from hgkt.cli._options import with_options
from hgkt.cli._output import counted, emit, say, show_table
from hgkt.exceptions import DataError

_BAR_WIDTH = 24


@with_options
def explain_command(
    model: Path,
    class_name: Annotated[str | None, typer.Option("--class")] = None,
    input_file: Annotated[Path | None, typer.Option("--input")] = None,
    row: Annotated[int, typer.Option(min=0)] = 0,
    top: Annotated[int, typer.Option(min=1)] = 5,
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
    from hgkt.data import read_features

    if (class_name is None) == (input_file is None):
        raise DataError("say what to explain: either --class NAME or --input FILE with --row")
    loaded = load_model(model)
    if not hasattr(loaded, "explain_class"):
        kind = type(loaded).__name__
        raise DataError(f"{kind} does not explain itself; only hgkt and hgkt-network do")
    if input_file is None:
        found: Any = loaded.explain_class(label_of(loaded, str(class_name)))
        document, key = found.to_dict(), "sources"
    else:
        X = read_features(input_file, loaded.n_features_in_)
        if row >= len(X):
            raise DataError(f"--row {row} is beyond {input_file}, which has rows 0 to {len(X) - 1}")
        found = loaded.explain(X[row : row + 1], n_runner_ups=top)[0]
        document, key = {"row": row, **found.to_dict()}, "pulls"
    document[key] = document[key][:top]
    parts = [(one.label, one.weight) for one in getattr(found, key)[:top]]
    if found.description:
        parts.insert(0, ("(its description)", found.description))

    def render() -> None:
        if key == "pulls":
            say(
                f"row {row} is {found.label}: score {found.score:.4g}, {found.margin:.4g} ahead of "
                "the next",
                "runner-ups",
            )
            _show_bars([(one.label, one.weight) for one in found.runner_ups], "score")
            say(f"seen classes behind {found.label}")
            _show_bars(parts, "pull")
            return
        say(f"{found.label} ({'seen' if found.seen else 'added by its attributes'}) was made from")
        _show_bars(parts, "weight")
        table = getattr(loaded, "member_table", lambda: None)()  # of an ensemble
        if table is not None:
            header, rows = table
            say(f"by {counted(len(rows), 'member')}")
            show_table(header, rows)

    emit(document, render)


def _show_bars(parts: Sequence[tuple[Any, float]], name: str) -> None:
    """Print classes with a number each, and a bar as long as that."""
    unit = _BAR_WIDTH / (max((abs(weight) for _, weight in parts), default=0.0) or 1.0)
    rows = []
    for label, weight in parts:
        bar = ("█" if weight >= 0 else "░") * round(unit * abs(weight))
        rows.append((label, f"{weight:+.4f}", bar))
    show_table(("class", name, ""), rows)
