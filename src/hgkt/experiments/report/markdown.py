"""The report as Markdown: the same tables, figures as PNG files, numbers linked to records."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from hgkt.experiments.base import Block, FigureBlock, TableBlock, Value
from hgkt.experiments.report.html import printed_text
from hgkt.experiments.report.sections import Section, collapsed, is_words

_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~])")


def escape_markdown(text: str) -> str:
    """Return `text` so that Markdown shows it as it stands, in a table too.

    Parameters
    ----------
    text : str
        Any text.

    Examples
    --------
    >>> print(escape_markdown("CMT* | <b>"))
    CMT\\* \\| \\<b\\>
    """
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def page_markdown(
    title: str,
    lead: str,
    facts: Mapping[str, str],
    warnings: Sequence[str],
    sections: Sequence[Section],
) -> str:
    """Return the whole report.

    Parameters
    ----------
    title, lead : str
        Heading and the paragraph below it.
    facts : mapping of str to str
        What is told of the run.
    warnings : sequence of str
        What a reader must know first.
    sections : sequence of Section
        The experiments.
    """
    lines = [f"# {escape_markdown(title)}", "", escape_markdown(lead), ""]
    for warning in warnings:
        lines += [f"> {escape_markdown(warning)}", ""]
    lines += [f"- {escape_markdown(k)}: {escape_markdown(v)}" for k, v in facts.items()]
    lines += [
        "",
        "A number links to the record of its first seed; the CSV tables name all of them.",
    ]
    for section in sections:
        lines += ["", f"## {escape_markdown(section.title)}", "", escape_markdown(section.about)]
        if section.state:
            lines += ["", f"> {escape_markdown(section.state)}"]
        for block in section.blocks:
            lines += ["", *_block(block)]
    return "\n".join(lines) + "\n"


def _block(block: Block) -> list[str]:
    if isinstance(block, TableBlock):
        return _table(block)
    if isinstance(block, FigureBlock):
        title = escape_markdown(block.title)
        data = f"[numbers](figures/{block.name}.csv)"
        return [f"![{title}](figures/{block.name}.png)", "",
                f"**{title}.** {escape_markdown(block.note)} ({data})"]  # fmt: skip
    return [escape_markdown(block.text)]


def _table(block: TableBlock) -> list[str]:
    title = escape_markdown(block.title)
    head = [escape_markdown(name) for name in block.columns]
    marks = [
        "---" if i == 0 or is_words([row[i] for row in block.rows]) else "--:"
        for i in range(len(head))
    ]
    lines = [_line(head), _line(marks)]
    lines += [_line([_item(item) for item in row]) for row in block.rows]
    if not block.rows:
        lines = ["Nothing yet."]
    if collapsed(block):
        start = [f"<details><summary>{title}</summary>", ""]
        end = ["", "</details>"]
    else:
        start, end = [f"### {title}", ""], []
    note = ["", escape_markdown(block.note)] if block.note else []
    return [*start, *lines, *note, *end]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _item(item: Value | str) -> str:
    if isinstance(item, str):
        return escape_markdown(item)
    text = escape_markdown(item.text)
    if item.keys:
        text = f"[{text}](records/{item.keys[0]}.json)"
    if item.best:
        text = f"**{text}**"
    if item.failed and item.number is not None:
        text += " (some seeds failed)"
    if item.published is not None:
        text += f" (paper: {printed_text(item.published)})"
    return text
