"""The task "classes": how often each class is recognised, and what it is taken for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hgkt.experiments.tasks import Outputs, build_estimator

if TYPE_CHECKING:
    from hgkt.data import GZSLDataset
    from hgkt.experiments.base import Cell


def run_classes(cell: Cell, dataset: GZSLDataset) -> Outputs:
    """Count predictions by true and predicted class, all classes being candidates.

    Parameters
    ----------
    cell : Cell
        The method, with parameters and γ that another cell selected; it has no options.
    dataset : GZSLDataset
        The data.

    Returns
    -------
    values : dict
        ``classes`` by name, seen ones first, and how many of them are seen, ``n_seen``.
    arrays : dict of ndarray
        ``confusion`` (C, C): test rows by true class (row) and predicted class (column).

    Examples
    --------
    >>> from hgkt.data import load_dataset
    >>> from hgkt.experiments.base import Cell, DataSpec
    >>> cell = Cell("classes", DataSpec("digits", "digits"), "hgkt", params={"calibration": 0.3})
    >>> values, arrays = run_classes(cell, load_dataset("digits"))
    >>> values["n_seen"], arrays["confusion"].shape, int(arrays["confusion"].sum())
    (8, (10, 10), 646)
    """
    from sklearn.metrics import confusion_matrix

    X_train, y_train = dataset.rows("train")
    model = build_estimator(cell, dataset)
    model.fit(X_train, y_train, class_attributes=dataset.attributes_of(dataset.seen_classes))
    model.add_classes(dataset.attributes_of(dataset.unseen_classes))
    parts = [dataset.rows(split) for split in ("test_seen", "test_unseen")]
    truth = np.concatenate([y for _, y in parts])
    found = np.concatenate([model.predict(X) for X, _ in parts])
    seen, unseen = (dataset.names(c) for c in (dataset.seen_classes, dataset.unseen_classes))
    names = [*seen, *unseen]
    confusion = confusion_matrix(truth, found, labels=names)
    return {"classes": names, "n_seen": len(seen)}, {"confusion": confusion}
