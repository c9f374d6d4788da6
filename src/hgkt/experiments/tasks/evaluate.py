"""The tasks "evaluate", one method by the protocol with its curve, and "statistics"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from hgkt._validation import check_choice
from hgkt.exceptions import DataError
from hgkt.experiments.tasks import Outputs, build_estimator

if TYPE_CHECKING:
    from hgkt.data import GZSLDataset
    from hgkt.estimators.base import GZSLClassifier
    from hgkt.evaluation import SeenUnseenCurve
    from hgkt.evaluation.selection import ClassFoldSearch
    from hgkt.experiments.base import Cell

OPTIONS = ("select", "calibrate", "n_folds", "metric", "stages", "search", "n_trials")
SEARCHES = ("grid", "optuna")


def evaluate_cell(cell: Cell, dataset: GZSLDataset) -> Outputs:
    """Evaluate the cell's method; whatever is chosen is chosen on validation classes.

    Parameters
    ----------
    cell : Cell
        ``options`` are those of `hgkt.evaluation.evaluate` (``select``, by default True,
        ``calibrate``, ``n_folds``, ``metric``, ``stages``), and ``search="optuna"`` with
        ``n_trials``, which draws settings instead of walking through a grid.
    dataset : GZSLDataset
        The data.

    Returns
    -------
    values : dict
        The run record, as `RunRecord.to_dict` gives it, with ``by_zsl``: what the setting that
        is best by ZSL reaches, so that the table of conventional results needs no second search.
    arrays : dict of ndarray
        ``gammas``, ``seen`` and ``unseen`` of the seen–unseen curve on the test rows; accuracies
        are fractions.

    Examples
    --------
    >>> from hgkt.data import load_dataset
    >>> from hgkt.experiments.base import Cell, DataSpec
    >>> cell = Cell("evaluate", DataSpec("digits", "digits"), "eszsl", options={"select": False})
    >>> values, arrays = evaluate_cell(cell, load_dataset("digits"))
    >>> values["method"], sorted(arrays)
    ('eszsl', ['gammas', 'seen', 'unseen'])
    """
    from hgkt.evaluation import evaluate

    for name in cell.options:
        check_choice("an option of the task 'evaluate'", name, OPTIONS)
    options = {"select": True, **cell.options}
    search, n_trials = options.pop("search", "grid"), options.pop("n_trials", None)
    check_choice("search", search, SEARCHES)
    arrays: dict[str, NDArray[Any]] = {}

    def keep(model: GZSLClassifier, curve: SeenUnseenCurve) -> None:
        arrays.update(gammas=curve.gammas, seen=curve.seen, unseen=curve.unseen)

    estimator = build_estimator(cell, dataset)
    if search == "optuna":
        estimator = _optuna(estimator, options, n_trials, cell.seed)
    record = evaluate(
        estimator, dataset, **options, random_state=cell.seed, on_test=keep, by_zsl=True
    )
    return record.to_dict(), arrays


def _optuna(
    estimator: GZSLClassifier, options: dict[str, Any], n_trials: int | None, seed: int
) -> ClassFoldSearch:
    """Move what concerns the search from `options` into it; `evaluate` takes it as it is."""
    from hgkt.experiments.tasks.optuna_search import OptunaSearch

    if not options.pop("select"):
        raise DataError("search='optuna' selects settings; select=False contradicts it")
    names = ("calibrate", "n_folds", "metric", "stages")
    moved: dict[str, Any] = {name: options.pop(name) for name in names if name in options}
    if n_trials is not None:
        moved["n_trials"] = n_trials
    return OptunaSearch(estimator, random_state=seed, **moved)


def describe_data(cell: Cell, dataset: GZSLDataset) -> Outputs:
    """Count a data set and look it over.

    Parameters
    ----------
    cell : Cell
        The work; it has no options.
    dataset : GZSLDataset
        The data.

    Returns
    -------
    values : dict
        ``data`` with counts and fingerprints, ``findings`` as pairs of level and sentence.
    arrays : dict
        Empty.

    Examples
    --------
    >>> from hgkt.data import load_dataset
    >>> from hgkt.experiments.base import Cell, DataSpec
    >>> cell = Cell("statistics", DataSpec("digits", "digits"))
    >>> values, _ = describe_data(cell, load_dataset("digits"))
    >>> values["data"]["n_seen_classes"], values["findings"][0]
    (8, ['ok', 'shapes, labels, splits and attributes are valid'])
    """
    from hgkt.data import check_dataset

    findings = [[finding.level, finding.sentence] for finding in check_dataset(dataset)]
    data = {**dataset.summary(), "fingerprint": dataset.fingerprint()}
    return {"data": data, "findings": findings}, {}
