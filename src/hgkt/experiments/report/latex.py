"""Tables for a paper: LaTeX with booktabs, and BibTeX of the methods in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from hgkt.experiments.blocks import TableBlock, Value
from hgkt.experiments.report.pages import head_groups, value_text, word_columns

_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "±": r"$\pm$", "−": "$-$", "γ": r"$\gamma$", "μ": r"$\mu$", "λ": r"$\lambda$",
    "Δ": r"$\Delta$", "✓": r"\checkmark{}", "–": "--", "“": "``", "”": "''",
}  # fmt: skip


def escape_latex(text: str) -> str:
    """Return `text` so that LaTeX shows it as it stands.

    Examples
    --------
    >>> print(escape_latex("H, γ = 0: 5 % ± 1"))
    H, $\\gamma$ = 0: 5 \\% $\\pm$ 1
    """
    return "".join(_SPECIAL.get(letter, letter) for letter in " ".join(text.split()))


def latex_table(block: TableBlock) -> str:
    """Return a table as LaTeX; it needs the packages booktabs and amssymb.

    Parameters
    ----------
    block : TableBlock
        The table. What is marked best is bold; the paper's numbers are left out.

    Examples
    --------
    >>> block = TableBlock("t", "T", ["Method", "H"], [["DEM", Value(40.5, 0.71, best=True)]])
    >>> print(latex_table(block).splitlines()[7])
    DEM & \\textbf{40.5 $\\pm$ 0.7} \\\\
    """
    words = word_columns(block) | {0}
    align = "".join("l" if i in words else "r" for i in range(len(block.heads)))
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escape_latex(block.title)}.}}",
        rf"\begin{{tabular}}{{{align}}}",
        r"\toprule",
        *_heads(block),
        r"\midrule",
        *(" & ".join(_cell(item) for item in row) + r" \\" for row in block.rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _heads(block: TableBlock) -> list[str]:
    groups = head_groups(block.heads)
    names = " & ".join(escape_latex(column.name) for column in block.heads) + r" \\"
    if not any(group.name for group in groups):
        return [names]
    above = [
        rf"\multicolumn{{{len(group.columns)}}}{{c}}{{{escape_latex(group.name)}}}"
        for group in groups
    ]
    rules = [
        rf"\cmidrule(lr){{{group.start + 1}-{group.start + len(group.columns)}}}"
        for group in groups
        if group.name
    ]
    return [" & ".join(above) + r" \\", " ".join(rules), names]


def _cell(item: Value | str) -> str:
    text = escape_latex(value_text(item))
    return rf"\textbf{{{text}}}" if isinstance(item, Value) and item.best else text


def bibtex(references: Mapping[str, str]) -> str:
    """Return the methods' references as BibTeX, each once.

    Parameters
    ----------
    references : mapping of str to str
        By method: authors, title, and where and when it was published, separated by commas.

    Examples
    --------
    >>> print(bibtex({"sje": "Akata et al., Evaluation of Output Embeddings, CVPR 2015"}))
    @misc{sje,
      author = {Akata and others},
      title = {Evaluation of Output Embeddings},
      howpublished = {CVPR},
      year = {2015},
    }
    <BLANKLINE>
    """
    first: dict[str, str] = {}
    for name, reference in references.items():
        if reference:
            first.setdefault(reference, name)
    return "\n".join(_entry(name, reference) for reference, name in first.items())


def _entry(name: str, reference: str) -> str:
    parts = reference.split(", ")
    n_authors = next((i for i, part in enumerate(parts) if not _is_author(part)), 1)
    authors = [part.removesuffix(" et al.") for part in parts[:n_authors]]
    if parts[n_authors - 1].endswith(" et al."):
        authors.append("others")
    year = "".join(re.findall(r"\d{4}$", parts[-1]))
    place = parts[-1].removesuffix(year).strip()
    fields: Iterable[tuple[str, str]] = (
        ("author", " and ".join(authors)),
        ("title", ", ".join(parts[n_authors:-1])),
        ("howpublished", place),
        ("year", year),
    )
    lines = [f"  {key} = {{{escape_latex(text)}}}," for key, text in fields if text]
    return "\n".join([f"@misc{{{name},", *lines, "}"]) + "\n"


def _is_author(part: str) -> bool:
    return part.endswith(" et al.") or " " not in part
