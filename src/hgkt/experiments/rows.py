"""The rows of a table of methods, the cells behind them, and the paper's numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hgkt.estimators.methods import METHODS
from hgkt.experiments.blocks import Metric, Outcome, Slot, Value
from hgkt.experiments.plan import Cell, Context, DataSpec

RELEASED = "released"
"""Preset with the settings that a method's authors published."""

_LABELS = {"hgkt-network": "HGKT, paper", "cmt-star": "CMT*", "cn-zsl": "CN-ZSL", "ridge": "Ridge"}
_QUICK = {"n_steps": 30, "n_epochs": 2, "n_iterations": 20}
ZSL: Metric = ("by_zsl", "zsl")
"""Accuracy among unseen classes of the setting that validation chose by it."""

_PUBLISHED: dict[Metric, int] = {ZSL: 0, "zsl": 0, "ts": 1, "tr": 2, "H": 3}
_PUBLISHED |= {("uncalibrated", name): _PUBLISHED[name] for name in ("ts", "tr", "H")}
METRICS: dict[str, Metric] = {"H, γ = 0": ("uncalibrated", "H"), "ts": "ts", "tr": "tr", "H": "H"}
METRICS |= {"ZSL": "zsl", "AUSUC": "ausuc"}
"""Columns of a table of accuracies, and where a record has them."""

_CALIBRATED: tuple[Metric, ...] = ("ts", "tr", "H")


@dataclass(frozen=True)
class MethodRow:
    """One row of a table of methods.

    Parameters
    ----------
    name : str
        Unique: "hgkt", "hgkt-paper", "eszsl".
    label : str
        What the table shows.
    method : str
        Registered method.
    preset : str
        A preset; empty: the method as it stands.
    """

    name: str
    label: str
    method: str
    preset: str = ""

    @property
    def ours(self) -> bool:
        """Whether it is a method of the paper that the report is about."""
        return METHODS[self.method].reference == METHODS["hgkt"].reference

    @property
    def fixed(self) -> bool:
        """Whether its settings are its authors' and only γ is chosen."""
        return self.preset == RELEASED

    def asked(self, context: Context) -> bool:
        """Whether its method is among those asked for."""
        return not context.methods or self.method in context.methods

    def published(self, data: DataSpec, metric: Metric) -> float | None:
        """Return what the paper prints, or None; it has "zsl", "ts", "tr" and "H".

        Examples
        --------
        >>> PAPER.published(DataSpec("CUB", ""), "H")
        34.9
        """
        if self.fixed:
            return None
        method = "hgkt" if self.ours else self.method
        printed = PUBLISHED.get(method, {}).get(data.name.upper())
        return printed[_PUBLISHED[metric]] if printed and metric in _PUBLISHED else None


def label_of(method: str) -> str:
    """Return how tables write a method's name.

    Examples
    --------
    >>> label_of("conse"), label_of("cmt-star")
    ('ConSE', 'CMT*')
    """
    return _LABELS.get(method) or METHODS[method].target.partition(":")[2].removesuffix(
        "Classifier"
    )


DEFAULT = MethodRow("hgkt", "HGKT", "hgkt", "default")
PAPER = MethodRow("hgkt-paper", "HGKT, paper", "hgkt-network")


def row_of(method: str) -> MethodRow:
    """Return the row of a registered method."""
    rows = {row.method: row for row in (DEFAULT, PAPER)}
    return rows.get(method) or MethodRow(method, label_of(method), method)


def released_row(method: str) -> MethodRow | None:
    """Return the row of a method with its authors' settings, or None where they are not known."""
    if RELEASED not in getattr(METHODS.load(method), "named_presets", ()):
        return None
    return MethodRow(f"{method}-{RELEASED}", f"{label_of(method)}, as released", method, RELEASED)


def rows_of(context: Context) -> list[MethodRow]:
    """Return the rows of a table of methods.

    A method whose authors published their settings has a second row with these.

    Parameters
    ----------
    context : Context
        Its ``methods``, in their order; where it names none, all that are registered.

    Examples
    --------
    >>> [row.label for row in rows_of(Context(data=(), methods=("cmt-star", "hgkt")))]
    ['CMT*', 'HGKT']
    """
    names = dict.fromkeys(context.methods or METHODS)
    rows = [row for name in names for row in (row_of(name), released_row(name))]
    return [row for row in rows if row is not None]


def evaluate_cells(
    context: Context,
    row: MethodRow,
    data: DataSpec,
    params: dict[str, Any] | None = None,
    **options: Any,
) -> list[Cell]:
    """Return the cells of a row on one data set, one per seed, parameters chosen by validation.

    A seed draws what a method has of chance and which images validation holds out, so that a
    method without chance has a spread too.

    Parameters
    ----------
    context : Context
        What the run is about.
    row : MethodRow
        The method.
    data : DataSpec
        The data set.
    params : dict, optional
        Parameters set by hand.
    **options
        For the task, over ``select=True``.

    Examples
    --------
    >>> context = Context(data=(), n_seeds=2)
    >>> [cell.seed for cell in evaluate_cells(context, row_of("dem"), DataSpec("digits", "digits"))]
    [0, 1]
    """
    asked, given = {"select": not row.fixed, **options}, dict(params or {})
    if context.quick:
        # Nothing but γ is chosen, on one fold, and networks take few steps.
        known = METHODS.load(row.method)._get_param_names()
        asked = {**asked, "n_folds": 1} | ({} if row.fixed else {"stages": []})
        given = {**{name: few for name, few in _QUICK.items() if name in known}, **given}
    return [
        Cell("evaluate", data, row.method, row.preset, given, seed, asked)
        for seed in range(context.n_seeds)
    ]


def plan_evaluations(context: Context) -> dict[Slot, list[Cell]]:
    """Return the cells that tables of results, ranks and curves share, by data set and row."""
    return {
        (data.name, row.name): evaluate_cells(context, row, data)
        for data in context.data
        for row in rows_of(context)
    }


def method_values(
    outcome: Outcome, row: MethodRow, data: DataSpec, metrics: Mapping[Any, Metric]
) -> list[Value]:
    """Return a row's values of some metrics on one data set, the paper's numbers beside them.

    The paper calibrates nothing, so its numbers stand beside those at γ = 0.
    """
    slot = (data.name, row.name)
    printed = {m: None if m in _CALIBRATED else row.published(data, m) for m in metrics.values()}
    return [outcome.value(slot, metric, printed[metric]) for metric in metrics.values()]


def data_note(context: Context) -> str:
    """Return in words which features were used; empty where they are the paper's.

    Examples
    --------
    >>> data_note(Context(data=[DataSpec("CUB", "CUB", "efflite2")]))
    'Features: efflite2 on CUB; the paper has res101 throughout.'
    """
    used = [f"{data.features} on {data.name}" for data in context.data if data.features]
    sentences = []
    if any(data.features not in ("", "res101") for data in context.data):
        sentences.append(f"Features: {', '.join(used)}; the paper has res101 throughout.")
    return " ".join(sentences)


Published = tuple[float | None, float, float, float]
"""ZSL accuracy (None where the paper has none), ts, tr and H, in percent."""

# ResNet-101 features, as printed in the tables of conventional and generalized results of Wang et
# al., "Heterogeneous graph-based knowledge transfer for generalized zero-shot learning", 2019. Most
# rows are taken over there from Xian et al., TPAMI 2019. The ZSL accuracies of DEM are lower than
# those its authors report (68.4 on AWA1, 67.1 on AWA2).
# A row per method, a column per data set, as the paper has it; psrzsl has no number on AWA1.
_SETS = ("SUN", "CUB", "AWA1", "AWA2", "APY")
# fmt: off
_PRINTED: dict[str, tuple[Published | None, ...]] = {
    "dap": ((39.9, 4.2, 25.1, 7.2), (40.0, 1.7, 67.9, 3.3), (44.1, 0.0, 88.7, 0.0),
        (46.1, 0.0, 84.7, 0.0), (33.8, 4.8, 78.3, 9.0)),
    "iap": ((19.4, 1.0, 37.8, 1.8), (24.0, 0.2, 72.8, 0.4), (35.9, 2.1, 78.2, 4.1),
        (35.9, 0.9, 87.6, 1.8), (36.6, 5.7, 65.6, 10.4)),
    "conse": ((38.8, 6.8, 39.9, 11.6), (34.3, 1.6, 72.2, 3.1), (45.6, 0.4, 88.6, 0.8),
        (44.5, 0.5, 90.6, 1.0), (26.9, 0.0, 91.2, 0.0)),
    "cmt": ((39.9, 8.1, 21.8, 11.8), (34.6, 7.2, 49.8, 12.6), (39.5, 0.9, 87.6, 1.8),
        (37.9, 0.5, 90.0, 1.0), (28.0, 1.4, 85.2, 2.8)),
    "cmt-star": ((None, 8.7, 28.0, 13.3), (None, 4.7, 60.1, 8.7), (None, 8.4, 86.9, 15.3),
        (None, 8.7, 89.0, 15.9), (None, 10.9, 74.2, 19.0)),
    "sse": ((51.5, 2.1, 36.4, 4.0), (43.9, 8.5, 46.9, 14.4), (60.1, 7.0, 80.5, 12.9),
        (61.0, 8.1, 82.5, 14.8), (34.0, 0.2, 78.9, 0.4)),
    "latem": ((55.3, 14.7, 28.8, 19.5), (49.3, 15.2, 57.3, 24.0), (55.1, 7.3, 71.7, 13.3),
        (55.8, 11.5, 77.3, 20.0), (35.2, 0.1, 73.0, 0.2)),
    "ale": ((58.1, 21.8, 33.1, 26.3), (54.9, 23.7, 62.8, 34.4), (59.9, 16.8, 76.1, 27.5),
        (62.5, 14.0, 81.8, 23.9), (39.7, 4.6, 73.7, 8.7)),
    "devise": ((56.5, 16.9, 27.4, 20.9), (52.0, 23.8, 53.0, 32.8), (54.2, 13.4, 68.7, 22.4),
        (59.7, 17.1, 74.7, 27.8), (39.8, 4.9, 76.9, 9.2)),
    "sje": ((53.7, 14.7, 30.5, 19.8), (53.9, 23.5, 59.2, 33.6), (65.6, 11.3, 74.6, 19.6),
        (61.9, 8.0, 73.9, 14.4), (32.9, 3.7, 55.7, 6.9)),
    "eszsl": ((54.5, 11.0, 27.9, 15.8), (53.9, 12.6, 63.8, 21.0), (58.2, 6.6, 75.6, 12.1),
        (58.6, 5.9, 77.8, 11.0), (38.3, 2.4, 70.1, 4.6)),
    "sync": ((56.3, 7.9, 43.4, 13.4), (55.6, 11.5, 70.9, 19.8), (54.0, 8.9, 87.3, 16.2),
        (46.6, 10.0, 90.5, 18.0), (23.9, 7.4, 66.3, 13.3)),
    "sae": ((40.3, 8.8, 18.0, 11.8), (33.3, 7.8, 54.0, 13.6), (53.0, 1.8, 77.1, 3.5),
        (54.1, 1.1, 82.2, 2.2), (8.3, 0.4, 80.9, 0.9)),
    "gfzsl": ((60.6, 0.0, 39.6, 0.0), (49.3, 0.0, 45.7, 0.0), (68.3, 1.8, 80.3, 3.5),
        (63.8, 2.5, 80.1, 4.8), (38.4, 0.0, 83.3, 0.0)),
    "dem": ((61.9, 20.5, 34.3, 25.6), (50.1, 19.6, 57.9, 29.2), (64.2, 32.8, 84.7, 47.3),
        (61.9, 30.5, 86.4, 45.1), (34.5, 11.1, 75.1, 19.4)),
    "psrzsl": ((61.4, 20.8, 37.2, 26.7), (56.0, 24.6, 54.3, 33.9), None,
        (63.8, 20.7, 73.8, 32.3), (38.4, 13.5, 51.4, 21.4)),
    "hgkt": ((62.1, 22.3, 36.5, 27.7), (54.2, 25.2, 56.9, 34.9), (69.1, 39.4, 83.5, 53.6),
        (68.9, 37.9, 86.5, 52.7), (41.5, 18.3, 79.0, 29.7)),
}
# fmt: on
PUBLISHED: dict[str, dict[str, Published]] = {
    method: {data: row for data, row in zip(_SETS, rows, strict=True) if row is not None}
    for method, rows in _PRINTED.items()
}

# Table "Effect of intra-class and inter-class relationship": ts, tr, H. The rows with the relation
# are its main result.
RELATIONS: dict[str, dict[str, tuple[float, float, float]]] = {
    "with": {data: row[1:] for data, row in PUBLISHED["hgkt"].items()},
    "no intra": dict(zip(_SETS, [(22.2, 33.4, 26.7), (24.4, 56.7, 34.1), (34.9, 82.6, 49.1),
                                 (36.1, 85.5, 50.7), (14.3, 56.7, 22.8)], strict=True)),
    "no inter": dict(zip(_SETS, [(21.5, 32.5, 25.9), (23.0, 56.6, 32.7), (32.6, 84.0, 46.9),
                                 (25.7, 86.5, 39.6), (13.1, 76.3, 22.4)], strict=True)),
}  # fmt: skip
