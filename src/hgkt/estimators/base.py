"""The contract that every method shares: fit on seen classes, add classes at any time, predict.

A method fills in three hooks: `_fit_seen`, `_embed_classes` and `_score`. Everything a user meets
(labels, candidate sets, adding and removing classes, saving, messages) is here once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from hgkt._typing import Progress
from hgkt._validation import attribute_matrix
from hgkt.calibration import Calibration, HeldOutClasses
from hgkt.closed_form.family import FEW_CLASSES
from hgkt.closed_form.scoring import Scorer
from hgkt.confidence import Confidence
from hgkt.estimators._calibrating import AUTO, Found, own_calibration
from hgkt.estimators._check_class import check_class
from hgkt.estimators._class_tables import ClassTable
from hgkt.estimators._confident import ConfidentAnswers
from hgkt.estimators._from_statistics import FromStatistics
from hgkt.estimators._known import KnownClasses, warn_of_doubts
from hgkt.estimators._presets import Preset
from hgkt.estimators._rivalry import Newcomer
from hgkt.estimators._scoring import best_classes, score_blocks
from hgkt.estimators._snapshots import snapshot
from hgkt.estimators.checking import ClassCheck
from hgkt.estimators.hub import PretrainedModel
from hgkt.estimators.state_rules import ANYTHING, CONFIDENCE, Rule

__all__ = ["ClassTable", "GZSLClassifier", "Preset"]

_UNNAMED = "new class"


class GZSLClassifier(PretrainedModel, ClassifierMixin, FromStatistics, ConfidentAnswers):
    """Base of all generalized zero-shot classifiers.

    Subclasses implement

    - ``_fit_seen(X, codes, attributes)``: learn from seen classes and return their table,
    - ``_embed_classes(attributes)``: the table rows of classes known by attributes alone,
    - ``_score(X, table, seen)``: scores (n, rows) of features against the rows of one table,

    and name in ``_learned`` the attributes (arrays or numbers) that the last two read, with their
    shapes (`hgkt.estimators.state_rules.shapes`), so that a model can be saved and a damaged one is
    refused; a tuple of names does too, and goes unchecked. Seen and added classes are scored apart:
    the scores of seen classes are bit-identical whatever is added later.

    Every method has a parameter ``calibration``: γ, taken off the score of every class that was
    seen at the first fit. A class that came by its attributes pays as much of the offset of γ as
    it has learned from instances since. γ is a number; or a dict of ``offset`` and ``slope``, by
    which it depends on how many classes were added (:class:`hgkt.calibration.Calibration`); or
    "auto": `fit` leaves seen classes out in turn and finds γ itself, such that all classes count
    alike. It can be changed after `fit`.

    Attributes
    ----------
    classes_, seen_classes_, unseen_classes_ : ndarray
        All classes, sorted; those learned from instances, sorted when they were learned; and
        added ones in the order they came. Whatever is said to be ordered as ``classes_`` changes
        its order with them.
    """

    named_presets: ClassVar[Mapping[str, Preset]] = {}
    """Sets of parameters by name; see `hgkt.estimators.methods.presets_of`."""

    _learned: ClassVar[Mapping[str, Rule] | tuple[str, ...]] = ()
    _scores_classes_apart: ClassVar[bool] = False
    """Whether the score of a class depends on its own row of the table alone, and a large table
    may be scored in parts."""
    _held_out: HeldOutClasses | None = None
    """How well seen classes were recognised when they were held out, where folds were made."""
    _progress: Progress | None = None

    def on_progress(self, progress: Progress | None) -> Self:
        """Have `progress` called while a fit goes on; a clone starts without it."""
        self._progress = progress
        return self

    def remember_held_out(self, held_out: HeldOutClasses | None) -> Self:
        """Keep how well seen classes were recognised on folds that somebody else made."""
        self._held_out = held_out
        return self

    # ------------------------------------------------------------------ hooks of a method
    @abstractmethod
    def _fit_seen(
        self, X: NDArray[Any], codes: NDArray[np.intp], attributes: NDArray[np.float64]
    ) -> ClassTable:
        """Learn from features (N, D), class codes (N,) and attributes (L, d) of seen classes."""

    def _map_features(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return what `_score` takes of features (n, D): work that all classes share."""
        return X

    @abstractmethod
    def _score(self, X: NDArray[Any], table: ClassTable, seen: bool) -> NDArray[Any]:
        """Score prepared features against the rows of one table: (n, rows), higher is better."""

    def _folded(self, n_classes: int) -> Scorer | None:
        """Return a cheaper way to the best of so many classes, where a method has one."""
        return None

    def default_folds(self, n_classes: int) -> int:
        """Return 3, or 6 where classes are few: a fold then holds out two or three of them."""
        return 3 if n_classes >= FEW_CLASSES else 6

    def default_stages(self) -> list[Any]:
        """Return the hyper-parameter grids to search, one after another, on validation classes."""
        return []

    def plain_stages(self, counts: NDArray[np.intp]) -> list[Any]:
        """Return the grids to search even where only γ is asked for: none, in most methods.

        Parameters
        ----------
        counts : ndarray of shape (n_classes,)
            Rows per seen class.
        """
        return []

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
        """Fit every parameter setting, add the new classes and score `X_eval`.

        Yields ``(index in grid, scores)`` with the columns of seen classes first, sorted, and
        those of new classes after them, as `new_attributes` has them.
        A method that can share work between settings (one decomposition for a whole grid, one
        training run for many step counts) overrides this; the yields may come in any order.
        """
        for index, params in enumerate(grid):
            model = clone(self).set_params(**params)
            model.fit(X, y, class_attributes=class_attributes).add_classes(new_attributes)
            yield index, model.score_classes(X_eval, penalty=False)[:, model.candidates()]
            if progress is not None:
                progress("select", index + 1, len(grid), {})

    def fit(self, X: ArrayLike, y: ArrayLike, class_attributes: Any = None) -> Self:
        """Learn from the instances of seen classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Visual features; a memory-mapped array stays on disk.
        y : array-like of shape (n_samples,)
            Class of each row, strings or integers.
        class_attributes : mapping or DataFrame, optional
            Attribute vector of every class in `y`, keyed by class. Classes that `y` has not are
            added after learning, as `add_classes` would. None means one-hot vectors: a plain
            classifier to which no class can be added.
        """
        features, codes, classes, attributes = self._check_training_data(X, y, class_attributes)
        self._learn(features, codes, classes, attributes, class_attributes is not None)
        if class_attributes is not None:
            warn_of_doubts(KnownClasses([], attributes[:0]), classes.tolist(), attributes)
        if self.calibration == AUTO and self._has_attributes:
            table = dict(zip(classes.tolist(), attributes, strict=True))
            self._take_found(own_calibration(self, features, classes[codes], table))
        return self._add_others(class_attributes)

    def _learn(
        self,
        X: NDArray[Any],
        codes: NDArray[np.intp],
        classes: NDArray[Any],
        attributes: NDArray[np.float64],
        has_attributes: bool,
    ) -> Self:
        self._start_fit()
        table = self._fit_seen(X, codes, attributes)
        return self._take_table(table, classes, attributes, has_attributes)

    def _start_fit(self) -> None:
        """Refuse a calibration that is none, and forget what an earlier fit found."""
        if self.calibration != AUTO:
            Calibration.of(self.calibration)
        self._own_calibration = self._confidence = self._held_out = None

    def _take_table(
        self,
        table: ClassTable,
        classes: NDArray[Any],
        attributes: NDArray[np.float64],
        has_attributes: bool,
    ) -> Self:
        self._grown = np.zeros(len(attributes), dtype=bool)
        self._learned_shares = np.zeros(len(attributes))
        self._seen_table = table
        self._seen_attributes = attributes
        self._has_attributes = has_attributes
        self.seen_classes_ = classes
        self._set_added(classes[:0], attributes[:0], {k: v[:0] for k, v in table.items()})
        return self

    def _take_found(self, found: Found) -> None:
        self._own_calibration, self._confidence = found.law, found.confidence
        self._held_out = found.held_out

    def _rename(self, names: Mapping[Any, Any]) -> None:
        super()._rename(names)
        if self._held_out is not None:
            labels = tuple(names.get(name, name) for name in self._held_out.labels)
            self._held_out = replace(self._held_out, labels=labels)

    # ------------------------------------------------------------------ before a class is added
    def check_class(self, attributes: ArrayLike, name: Any = None) -> ClassCheck:
        """Say what would become of a class if it were added; nothing is changed.

        Parameters
        ----------
        attributes : array-like of shape (n_attributes,)
            Its attribute vector, as `add_classes` takes it.
        name : str or int, optional
            Its name, which must be free.

        Returns
        -------
        ClassCheck
            Which classes it would be confused with, which would lose images to it, the accuracy
            to expect, how far it lies from what is known, and what would tell it better;
            ``str(check)`` says it in sentences. Only HGKTClassifier can tell all of it.
        """
        label = _UNNAMED if name is None else name
        if name is None:
            self._refuse_without_attributes()
            width = self._seen_attributes.shape[1]
            rows = attribute_matrix({label: attributes}, [label], width)
        else:
            _, rows = self._newcomers({label: attributes})
        return check_class(self, rows[0], name)

    def _newcomer(self, attributes: NDArray[np.float64]) -> Newcomer | None:
        """Compare a class with all known ones; None where a method cannot."""
        return None

    # ------------------------------------------------------------------ predicting
    def score_classes(self, X: ArrayLike, penalty: bool = True) -> NDArray[Any]:
        """Score every class for every row, a block of rows and classes at a time.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        penalty : bool
            Whether to take the calibration (gamma) off the scores of seen classes.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Columns ordered as ``classes_``; higher is better.
        """
        check_is_fitted(self)
        now = snapshot(self)
        features = now._check_rows(X)
        scores = np.empty((len(features), len(now.classes_)), dtype=np.float64)
        columns = now._order.columns
        for rows, block, part in score_blocks(now, features):
            scores[rows, columns[block.first : block.stop]] = part
        if penalty and now.calibration_ != Calibration():
            scores -= now.penalties_
        return scores

    def decision_function(self, X: ArrayLike) -> NDArray[Any]:
        """Return the scores (n_samples, n_classes), higher is better.

        As everywhere in scikit-learn, a model of exactly two classes returns one column less:
        (n_samples,), the score of ``classes_[1]`` minus that of ``classes_[0]``;
        `score_classes` has the full matrix in every case.
        """
        scores = self.score_classes(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(
        self, X: ArrayLike, among: str | Sequence[Any] = "all", reject: float | None = None
    ) -> NDArray[Any]:
        """Return the best class for each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        among : {"all", "seen", "unseen"} or sequence of classes
            The candidates: "all" is generalized zero-shot, "unseen" conventional zero-shot.
        reject : float, optional
            The share of rows of known classes that may be rejected by mistake. Rows that look
            like none of the known classes are then labelled `hgkt.UNKNOWN`.
        """
        now = snapshot(self)
        if reject is not None:
            return now.answers(X, among, reject=reject).labels
        columns = now.candidates(among)
        best = best_classes(now, now._check_rows(X), columns)
        result: NDArray[Any] = now.classes_[columns[best]]
        return result

    # ------------------------------------------------------------------ saving
    def _state(self) -> dict[str, NDArray[Any]]:
        """Return every learned array, by name, that a loaded model needs."""
        state = {f"learned/{name}": np.asarray(getattr(self, name)) for name in self._learned}
        state |= {f"seen/{key}": rows for key, rows in self._seen_table.items()}
        state |= {f"added/{key}": rows.array for key, rows in self._added_table.items()}
        if self._own_calibration is not None:
            law = self._own_calibration
            state["calibration"] = np.array([law.offset, law.slope])
        if self._confidence is not None:
            arrays = self._confidence.to_arrays()
            state |= {f"confidence/{name}": array for name, array in arrays.items()}
        if self._held_out is not None:
            state["held_out"] = self._held_out.to_array(self.seen_classes_.tolist())
        if self._grown.any():
            state["learned_shares"] = self._learned_shares
        return state | {"grown": self._grown}

    def _state_rules(self, names: Collection[str]) -> dict[str, Rule]:
        """Return what each of the arrays of `_state` must look like, given those that are there."""
        learned = self._learned
        known = learned if isinstance(learned, Mapping) else dict.fromkeys(learned, ANYTHING)
        rules = {f"learned/{name}": rule for name, rule in known.items()}
        for name in names:
            group, _, key = name.partition("/")
            if group == "seen":
                rules |= {name: Rule("L *", ""), f"added/{key}": Rule("U *", "")}
        if any(name.startswith("confidence/") for name in names):
            rules |= {f"confidence/{name}": rule for name, rule in CONFIDENCE.items()}
        rules["grown"] = Rule("L", "b")
        rules["learned_shares"] = Rule("L", low=0.0, optional=True)
        rules["calibration"] = Rule("2", optional=True)
        rules["held_out"] = Rule("held_out 6", optional=True)
        return rules

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Set what `_state` returned; labels and attributes are already in place."""
        for name in self._learned:
            value = state[f"learned/{name}"]
            setattr(self, name, value.item() if value.ndim == 0 else value)
        tables: dict[str, ClassTable] = {"seen": {}, "added": {}, "confidence": {}}
        for key, rows in state.items():
            group, _, name = key.partition("/")
            if group in tables:
                tables[group][name] = rows
        self._seen_table = tables["seen"]
        self._grown = np.asarray(state["grown"], dtype=bool)
        # In folders of earlier releases classes that have grown pay nothing.
        self._learned_shares = state.get("learned_shares", np.zeros(len(self._grown)))
        if "calibration" in state:
            self._own_calibration = Calibration(*state["calibration"].tolist())
        if tables["confidence"]:
            self._confidence = Confidence.from_arrays(tables["confidence"])
        if "held_out" in state:
            seen = self.seen_classes_.tolist()
            self._held_out = HeldOutClasses.from_array(state["held_out"], seen)
        self._set_added(self.unseen_classes_, self._added_attributes.array, tables["added"])

    def save(self, path: str | Path, **about: Any) -> Path:
        """Write the model folder; see :func:`hgkt.load_model`.

        Parameters
        ----------
        path : path
            The folder; an existing model there is replaced in one step.
        **about
            What the model was made with (data set, features, encoder, …), kept in its config.
        """
        from hgkt.estimators.model_folder import save_model

        return save_model(self, path, about)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "seen_classes_")
