"""Calibrated stacking around any method: a constant off the scores of seen classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from hgkt._validation import check_number
from hgkt.estimators.base import ClassTable, GZSLClassifier, Progress

_PREFIX = "estimator__"


class MetaClassifier(GZSLClassifier):
    """Base of methods that wrap a method: the whole contract, handed to the one inside.

    Subclasses implement `fit` and the property `_inner`, the fitted method that answers.
    """

    estimator: Any

    @property
    def _inner(self) -> GZSLClassifier:
        """The fitted method; AttributeError before `fit`."""
        raise AttributeError(f"{type(self).__name__} is not fitted")

    # What is learned, and hence what the base class reads, is that of the method inside.
    def _fit_seen(
        self, X: NDArray[Any], codes: NDArray[np.intp], attributes: NDArray[np.float64]
    ) -> ClassTable:
        return self._inner._fit_seen(X, codes, attributes)

    def _embed_classes(self, attributes: NDArray[np.float64]) -> ClassTable:
        return self._inner._embed_classes(attributes)

    def _map_features(self, X: NDArray[Any]) -> NDArray[Any]:
        return self._inner._map_features(X)

    def _score(self, X: NDArray[Any], table: ClassTable, seen: bool) -> NDArray[Any]:
        return self._inner._score(X, table, seen)

    def _seen_penalty(self) -> float:
        return self._inner._seen_penalty() if self.__sklearn_is_fitted__() else 0.0

    @property
    def classes_(self) -> NDArray[Any]:  # type: ignore[override]
        """Seen classes, then added ones."""
        return self._inner.classes_

    @property
    def seen_classes_(self) -> NDArray[Any]:  # type: ignore[override]
        """Classes learned from instances."""
        return self._inner.seen_classes_

    @property
    def unseen_classes_(self) -> NDArray[Any]:  # type: ignore[override]
        """Classes added by their attributes."""
        return self._inner.unseen_classes_

    @property
    def class_attributes_(self) -> NDArray[np.float64]:
        """Attribute vectors, one row a class, ordered as ``classes_``."""
        return self._inner.class_attributes_

    @property
    def class_embeddings_(self) -> NDArray[Any]:
        """Embeddings, one row a class, ordered as ``classes_`` (methods that have them)."""
        return self._inner.class_embeddings_

    @property
    def n_features_in_(self) -> int:
        """Number of features."""
        return int(self._inner.n_features_in_)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the features, where they were fitted with names."""
        return self._inner.feature_names_in_

    @property
    def _columns(self) -> dict[Any, int]:  # type: ignore[override]
        return self._inner._columns

    def add_classes(self, class_attributes: Any) -> Self:
        """Add classes known by their attributes alone; see :meth:`GZSLClassifier.add_classes`.

        Parameters
        ----------
        class_attributes : mapping or DataFrame
            Attribute vector of each new class, keyed by class.
        """
        check_is_fitted(self)
        self._inner.add_classes(class_attributes)
        return self

    def remove_classes(self, classes: Sequence[Any]) -> Self:
        """Remove added classes; all or nothing.

        Parameters
        ----------
        classes : sequence of class labels
            Classes that were added with `add_classes`.
        """
        check_is_fitted(self)
        self._inner.remove_classes(classes)
        return self

    def score_classes(self, X: ArrayLike, penalty: bool = True) -> NDArray[Any]:
        """Score every class for every row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        penalty : bool
            Whether to take the calibration off the scores of seen classes.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Columns ordered as ``classes_``; higher is better.
        """
        check_is_fitted(self)
        return self._inner.score_classes(X, penalty=penalty)

    def save(self, path: str | Path, **about: Any) -> Path:
        """Write the model folder of the method inside; see :func:`hgkt.load_model`.

        Parameters
        ----------
        path : path
            The folder; an existing model there is replaced in one step.
        **about
            What the model was made with, kept in its config.
        """
        check_is_fitted(self)
        return self._inner.save(path, **about)


class CalibratedStacking(MetaClassifier):
    """Any method with γ taken off the scores of its seen classes.

    A model that has trained on seen classes scores them too high. Chao et al. (2016) predict
    argmax_c s_c(x) − γ·[c seen]; γ is one number, best found on validation classes
    (:class:`hgkt.evaluation.ClassFoldSearch`).

    Parameters
    ----------
    estimator : GZSLClassifier
        The method; a clone of it is fitted.
    calibration : float, default=0.0
        γ. It takes the place of a calibration that the method has of its own, and can be changed
        after `fit`.

    Attributes
    ----------
    estimator_ : GZSLClassifier
        The fitted method.
    classes_, seen_classes_, unseen_classes_, class_attributes_, class_embeddings_ : ndarray
        Those of `estimator_`.

    References
    ----------
    Chao, Changpinyo, Gong, Sha, An Empirical Study and Analysis of Generalized Zero-Shot Learning
    for Object Recognition in the Wild, ECCV 2016.

    Examples
    --------
    >>> from hgkt import CalibratedStacking, HGKTClassifier
    >>> X = np.array([[3.0, 1.0], [3.0, 1.2], [1.0, 3.0], [1.1, 3.0]])
    >>> y = ["cat", "cat", "dog", "dog"]
    >>> model = CalibratedStacking(HGKTClassifier(), calibration=10.0)
    >>> model = model.fit(X, y, {"cat": [1.0, 0.0], "dog": [0.0, 1.0]})
    >>> model.add_classes({"fox": [1.0, 1.0]}).predict(X[:2])
    array(['fox', 'fox'], dtype='<U3')
    >>> model.set_params(calibration=-10.0).predict(X[:2])
    array(['cat', 'cat'], dtype='<U3')
    """

    def __init__(self, estimator: Any, calibration: float = 0.0) -> None:
        self.estimator = estimator
        self.calibration = calibration

    @classmethod
    def from_fitted(cls, estimator: GZSLClassifier, calibration: float) -> Self:
        """Wrap a method that is fitted already; it is neither cloned nor fitted again.

        Parameters
        ----------
        estimator : GZSLClassifier
            The fitted method.
        calibration : float
            γ.
        """
        check_is_fitted(estimator)
        model = cls(estimator, calibration)
        model.estimator_ = estimator
        return model

    @property
    def _inner(self) -> GZSLClassifier:
        if "estimator_" not in vars(self):
            return super()._inner
        return self.estimator_

    def fit(self, X: ArrayLike, y: ArrayLike, class_attributes: Any = None) -> Self:
        """Fit a clone of the method on instances of seen classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Visual features.
        y : array-like of shape (n_samples,)
            Class of each row.
        class_attributes : mapping or DataFrame, optional
            Attribute vector of every class in `y`, keyed by class.
        """
        check_number("calibration", self.calibration)
        model: GZSLClassifier = clone(self.estimator)
        model.on_progress(self._progress).fit(X, y, class_attributes=class_attributes)
        self.estimator_ = model.on_progress(None)
        return self

    def score_classes(self, X: ArrayLike, penalty: bool = True) -> NDArray[Any]:
        """Score every class for every row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        penalty : bool
            Whether to take the calibration off the scores of seen classes.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Columns ordered as ``classes_``; higher is better.
        """
        scores = super().score_classes(X, penalty=False)
        if penalty and self._seen_penalty() != 0.0:
            scores[:, : len(self.seen_classes_)] -= self._seen_penalty()
        return scores

    def _seen_penalty(self) -> float:
        return float(self.calibration)

    def calibrated_by_default(self) -> bool:
        """Whoever wraps a method in this class wants it calibrated: True."""
        return True

    def default_stages(self) -> list[dict[str, list[Any]]]:
        """Return the grids of the method inside, under ``estimator__`` names."""
        return [
            {_PREFIX + name: values for name, values in stage.items()}
            for stage in self.estimator.default_stages()
        ]

    def fit_score_grid(
        self,
        grid: Sequence[Mapping[str, Any]],
        X: NDArray[Any],
        y: NDArray[Any],
        class_attributes: Mapping[Any, ArrayLike],
        new_attributes: Mapping[Any, ArrayLike],
        X_eval: NDArray[Any],
        progress: Progress | None = None,
    ) -> Iterator[tuple[int, NDArray[Any]]]:
        """Fit and score every setting as the method inside does, which may share work.

        The scores come without calibration; see :meth:`GZSLClassifier.fit_score_grid`.
        """
        names = {name for params in grid for name in params} - {"calibration"}
        data = (X, y, class_attributes, new_attributes, X_eval, progress)
        if not all(name.startswith(_PREFIX) for name in names):
            yield from super().fit_score_grid(grid, *data)
            return
        inner = [
            {name.removeprefix(_PREFIX): params[name] for name in params if name in names}
            for params in grid
        ]
        yield from self.estimator.fit_score_grid(inner, *data)

    def save(self, path: str | Path, **about: Any) -> Path:
        """Write the model folder; its config records the calibration.

        Parameters
        ----------
        path : path
            The folder; an existing model there is replaced in one step.
        **about
            What the model was made with, kept in its config.
        """
        return super().save(path, calibration=float(self.calibration), **about)
