"""What comes into an estimator, checked: features, labels, class attributes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from hgkt._arrays import is_tensor
from hgkt._validation import (
    attribute_matrix,
    attribute_table,
    check_features,
    label_text,
    refuse_twins,
)
from hgkt.closed_form.scoring import Scorer
from hgkt.exceptions import DataError

_ROW_OPTIONS: dict[str, Any] = {"dtype": (np.float64, np.float32), "ensure_all_finite": False}


class CheckedInputs(BaseEstimator):
    """An estimator that refuses what it cannot use with one sentence."""

    def _check_features(self, X: ArrayLike) -> NDArray[Any]:
        """Check features (n, D) of a fitted model's kind."""
        features = self._read_features(X)
        check_features(features, "features")
        return features

    def _check_rows(self, X: Any) -> Any:
        """Check features (n, D) that are only scored.

        Where scores are computed on a device their lengths are looked at there, and tensors that
        are on the device stay there.
        """
        there = self._device_scores()
        if there is None:
            return self._check_features(X)
        if not (is_tensor(X) and X.device.type == there.device):
            return self._read_features(X)
        width = getattr(self, "n_features_in_", None)
        if X.ndim != 2 or X.shape[1] != width or not len(X) or not X.is_floating_point():
            raise DataError(
                f"features must be a tensor of floats of shape (n, {width}); got {X.dtype} of "
                f"shape {tuple(X.shape)}"
            )
        return X.detach()

    def _device_scores(self) -> Scorer | None:
        """Return the scores on a device, where the user asked for one and a method has them."""
        return None

    def _read_features(self, X: ArrayLike) -> NDArray[Any]:
        """Return features (n, D) as an array; what is in the rows is not looked at."""
        features: NDArray[Any]
        if self._is_ready(X):
            features = X  # type: ignore[assignment]
        else:
            features = validate_data(self, _widened(X), reset=False, **_ROW_OPTIONS)
        return features

    def _is_ready(self, X: ArrayLike) -> bool:
        """Whether scikit-learn's checks would return X as it is; they take longer than a row."""
        return (
            type(X) is np.ndarray
            and X.ndim == 2
            and len(X) > 0
            and X.dtype in (np.float32, np.float64)
            and X.shape[1] == getattr(self, "n_features_in_", None)
            and not hasattr(self, "feature_names_in_")
        )

    def _check_labelled(
        self, X: ArrayLike, y: ArrayLike, reset: bool
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Check features (n, D) with labels (n,); `reset` says that this is a fit."""
        features, labels = validate_data(self, _widened(X), y, reset=reset, **_ROW_OPTIONS)
        check_features(features, "features")
        with warnings.catch_warnings():  # a batch may well have a class for every instance
            warnings.simplefilter("ignore", UserWarning)
            check_classification_targets(labels)
        return features, labels

    def _check_training_data(
        self, X: ArrayLike, y: ArrayLike, class_attributes: Any
    ) -> tuple[NDArray[Any], NDArray[np.intp], NDArray[Any], NDArray[np.float64]]:
        features, labels = self._check_labelled(X, y, reset=True)
        classes, codes = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise DataError(f"y holds one class only ({label_text(classes[0])}); two are expected")
        if class_attributes is None:
            return features, codes, classes, np.eye(len(classes))
        table = attribute_table(class_attributes)
        columns = getattr(class_attributes, "columns", ())
        if not any(name in table for name in classes.tolist()) and set(classes) <= set(columns):
            raise DataError(
                "class_attributes has a column per class; a row per class is expected: use frame.T"
            )
        refuse_twins(classes.tolist())
        return features, codes, classes, attribute_matrix(table, classes.tolist())

    def one_row(self, x: ArrayLike) -> NDArray[Any]:
        """Check one instance (D,) or (1, D) and return it as (1, D)."""
        check_is_fitted(self)
        array = np.atleast_2d(np.asarray(x))
        if array.ndim != 2 or len(array) != 1:
            raise DataError(f"one instance is expected; got an array of shape {np.shape(x)}")
        return self._check_features(array)


def _widened(X: Any) -> Any:
    """Return half-precision features as float32, and those of another device on this one.

    NumPy cannot always do so itself.
    """
    if is_tensor(X) and X.device.type != "cpu":
        X = X.detach().cpu()
    kind = str(getattr(X, "dtype", ""))
    if kind in ("float16", "bfloat16"):
        return np.asarray(X, dtype=np.float32)
    if kind in ("torch.float16", "torch.bfloat16"):
        return X.detach().cpu().float().numpy()
    return X
