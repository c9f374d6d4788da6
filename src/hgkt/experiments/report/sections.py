"""The report before it has a form: a section an experiment, with its blocks and cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hgkt.experiments.base import (
    Block,
    Context,
    Experiment,
    FigureBlock,
    Results,
    TableBlock,
    TextBlock,
    Value,
)

_DETAILS = "-details"
_GROUP = " · "


@dataclass(frozen=True)
class Section:
    """One experiment of the report.

    Parameters
    ----------
    name : str
        Of the experiment; the anchor of the section.
    title, about : str
        Heading and paragraph.
    blocks : sequence of Block
        What it shows.
    n_planned, n_done, n_failed : int
        How many cells it needs, and how they went.
    """

    name: str
    title: str
    about: str
    blocks: Sequence[Block]
    n_planned: int
    n_done: int
    n_failed: int

    @property
    def state(self) -> str:
        """In words how far the section is; empty where all is well."""
        n_absent = self.n_planned - self.n_done - self.n_failed
        words = []
        if self.n_failed:
            words.append(f"{self.n_failed} of {self.n_planned} runs failed")
        if n_absent:
            words.append(f"{n_absent} of {self.n_planned} runs not made")
        return ", ".join(words)


def make_sections(
    context: Context, experiments: Mapping[str, Experiment], results: Results
) -> tuple[list[Section], list[str]]:
    """Render every experiment; one that breaks is a section that says so.

    Parameters
    ----------
    context : Context
        What the run is about.
    experiments : mapping of str to Experiment
        By name, in the order of the report.
    results : mapping
        Results by cell key.

    Returns
    -------
    sections : list of Section
        In the same order.
    keys : list of str
        Keys of all results that were used, without repeats.
    """
    # A wider search ran another cell than was planned; both names mean its result.
    names = {result.cell.key: key for key, result in results.items() if key != result.cell.key}
    sections, keys = [], []
    for name, experiment in experiments.items():
        try:
            planned = list(dict.fromkeys(cell.key for cell in experiment.plan(context)))
            blocks: Sequence[Block] = [
                _linked(block, names) for block in experiment.render(context, results)
            ]
        except Exception as error:
            # The other experiments took hours: one that cannot be drawn must not take them along.
            planned = []
            why = f"{type(error).__name__}: {error}"
            blocks = [TextBlock(f"This experiment failed and cannot be shown. {why}")]
        ran = [results[key] for key in planned if key in results]
        n_done = sum(result.ok for result in ran)
        sections.append(
            Section(name, experiment.title, experiment.about, blocks, len(planned), n_done,
                    len(ran) - n_done)
        )  # fmt: skip
        keys += [key for key in planned if key in results]
        keys += [key for block in blocks for key in keys_of(block) if key in results]
    return sections, list(dict.fromkeys(keys))


def _linked(block: Block, names: Mapping[str, str]) -> Block:
    """Return the block with the keys under which results are listed."""
    if not names or isinstance(block, TextBlock):
        return block
    if isinstance(block, FigureBlock):
        return replace(block, keys=tuple(names.get(key, key) for key in block.keys))
    rows = [
        [
            replace(item, keys=tuple(names.get(key, key) for key in item.keys))
            if isinstance(item, Value)
            else item
            for item in row
        ]
        for row in block.rows
    ]
    return replace(block, rows=rows)


def keys_of(block: Block) -> list[str]:
    """Return the keys of all cells that a block was made from.

    Parameters
    ----------
    block : Block
        A block of the report.
    """
    if isinstance(block, FigureBlock):
        return list(block.keys)
    if isinstance(block, TableBlock):
        values = [item for row in block.rows for item in row if isinstance(item, Value)]
        return [key for item in values for key in item.keys]
    return []


def collapsed(block: Block) -> bool:
    """Whether a table is shown closed: its name ends in "-details".

    Parameters
    ----------
    block : Block
        A block of the report.
    """
    return isinstance(block, TableBlock) and block.name.endswith(_DETAILS)


def is_words(items: Sequence[Value | str]) -> bool:
    """Whether a column holds words rather than numbers; they are set to the left.

    Parameters
    ----------
    items : sequence of Value or str
        The column.

    Examples
    --------
    >>> is_words(["not found", Value("✓")]), is_words([Value("–"), Value("1.0", 1.0)])
    (True, False)
    """
    return bool(items) and all(
        isinstance(item, str) or (item.number is None and item.published is None) for item in items
    )


def column_groups(columns: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Split heads such as "CUB · H" into groups of neighbours; others stand alone.

    Parameters
    ----------
    columns : sequence of str
        Heads of a table.

    Returns
    -------
    list of (group, names)
        The group is empty for a head without one.

    Examples
    --------
    >>> column_groups(["Method", "CUB · ts", "CUB · H", "AWA1 · H"])
    [('', ['Method']), ('CUB', ['ts', 'H']), ('AWA1', ['H'])]
    """
    groups: list[tuple[str, list[str]]] = []
    for column in columns:
        group, found, name = column.partition(_GROUP)
        if not found:
            groups.append(("", [column]))
        elif groups and groups[-1][0] == group:
            groups[-1][1].append(name)
        else:
            groups.append((group, [name]))
    return groups
