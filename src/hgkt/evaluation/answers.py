"""What a model says of rows: the best classes of each and, where it can, how sure it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hgkt._arrays import torch_device
from hgkt.confidence.novelty import with_unknown
from hgkt.estimators.ranking import rank_classes, rank_surely

if TYPE_CHECKING:
    from hgkt.estimators import GZSLClassifier


@dataclass(frozen=True)
class Answers:
    """The best classes of n rows.

    Parameters
    ----------
    labels, scores : ndarray of shape (n, k)
        The best first; `hgkt.UNKNOWN` where a row is rejected.
    extra : dict of str to ndarray of shape (n,)
        ``probability`` of the best class, ``novelty``, ``set``: what the model can say and was
        asked for.
    """

    labels: NDArray[Any]
    scores: NDArray[np.float64]
    extra: dict[str, NDArray[Any]]

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return ``label``, ``score``, ``label_2``, ``score_2``, … and then the extra columns."""
        found: dict[str, NDArray[Any]] = {}
        for rank in range(self.labels.shape[1]):
            suffix = f"_{rank + 1}" if rank else ""
            found[f"label{suffix}"] = self.labels[:, rank]
            found[f"score{suffix}"] = self.scores[:, rank]
        return found | self.extra


def use_device(model: GZSLClassifier, device: str) -> None:
    """Have a loaded model compute where it is asked to, if its method has a choice.

    Parameters
    ----------
    model : GZSLClassifier
        A fitted model.
    device : {"auto", "cpu", "cuda"}
        "auto" leaves it where the model was made to compute.
    """
    where = device if device == "auto" else torch_device(device)
    if where != "auto" and "device" in model.get_params():
        model.set_params(device=where)


def answer_rows(
    model: GZSLClassifier,
    X: NDArray[Any],
    columns: NDArray[np.intp],
    k: int = 1,
    reject: float | None = None,
    coverage: float | None = None,
) -> Answers:
    """Return the `k` best of some classes for each row.

    Parameters
    ----------
    model : GZSLClassifier
        A fitted model.
    X : ndarray of shape (n, n_features)
        Features.
    columns : ndarray of int
        The candidates; see `GZSLClassifier.candidates`.
    k : int
        How many; fewer where there are fewer candidates.
    reject, coverage : float, optional
        See `GZSLClassifier.answers`; the model must know how sure it is.
    """
    if model.confidence_ is None and reject is None and coverage is None:
        best, scores = rank_classes(model, X, columns, k)
        return Answers(model.classes_[best], scores, {})
    found = rank_surely(model, X, columns, k, reject, coverage)
    labels = model.classes_[found.best].astype(object)
    labels[:, 0] = with_unknown(labels[:, 0], found.unknown)
    extra: dict[str, NDArray[Any]] = {"probability": found.probabilities[:, 0]}
    if reject is not None:
        extra["novelty"] = found.novelty
    if found.sets is not None:
        extra["set"] = np.array([", ".join(map(str, names)) for names in found.sets])
    return Answers(labels, found.scores, extra)
