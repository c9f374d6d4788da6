"""What a search does with its folds, and what it leaves alone."""

from __future__ import annotations

import numpy as np
import pytest

from hgkt import HGKTClassifier, HGKTNetworkClassifier
from hgkt.evaluation import ClassFoldSearch, evaluate
from hgkt.exceptions import DataError


class Recorded(HGKTClassifier):
    """Keeps the sizes of what each fold trained on and was scored on."""

    calls: list[tuple[int, int]]

    def score_grid(self, grid, fold, progress=None):
        Recorded.calls.append((len(fold.training.X), len(fold.X_eval)))
        return super().score_grid(grid, fold, progress)


def training_data(toy):
    X, y = toy.rows("train")
    return X, y, toy.attributes_of(toy.seen_classes)


@pytest.mark.parametrize(("holdout", "held"), [(0.25, 3), (0.5, 6)])
def test_search_holds_out_the_share_it_is_told(toy, holdout, held):
    # 12 classes of 12 rows: 9 are trained on, of which `held` rows each are scored; 3 are new.
    Recorded.calls = []
    search = ClassFoldSearch(Recorded(), stages=[], n_folds=2, holdout=holdout)
    search.fit(*training_data(toy))
    # Once per fold: what it was chosen by calibrates it, too.
    assert Recorded.calls == [(9 * (12 - held), 9 * held + 3 * 12)] * 2


def test_search_holds_out_a_fifth_by_default(toy):
    Recorded.calls = []
    ClassFoldSearch(Recorded(), stages=[], n_folds=1).fit(*training_data(toy))
    assert Recorded.calls == [(9 * 10, 9 * 2 + 3 * 12)]


@pytest.mark.parametrize("holdout", [0.0, 2.0])
def test_search_refuses_to_hold_out_nothing_or_more_than_there_is(toy, holdout):
    search = ClassFoldSearch(HGKTClassifier(), stages=[], holdout=holdout)
    with pytest.raises(DataError, match=r"^holdout must be"):
        search.fit(*training_data(toy))


@pytest.mark.parametrize("n_folds", [0, -2, 1.5])
@pytest.mark.parametrize("given", [True, False])
def test_search_refuses_a_number_of_folds_that_is_none(toy, n_folds, given):
    X, y, table = training_data(toy)
    names = np.unique(y).tolist()
    folds = [(names[:8], names[8:])] if given else None
    with pytest.raises(DataError, match=r"^n_folds must be"):
        ClassFoldSearch(HGKTClassifier(), stages=[], n_folds=n_folds).fit(X, y, table, folds=folds)
    with pytest.raises(DataError, match=r"^n_folds must be"):
        evaluate(HGKTClassifier(), toy, select=True, n_folds=n_folds)


@pytest.mark.parametrize("steps", [[2], [2, 3]])
def test_search_leaves_the_users_files_to_the_final_fit(toy, tmp_path, steps):
    checkpoint = tmp_path / "run" / "a.safetensors"
    X, y, table = training_data(toy)
    X = np.abs(X)
    early: list[str] = []

    def progress(stage, done, total, values):
        if stage.startswith(("select", "fold")) and list(tmp_path.iterdir()):
            early.append(stage)

    model = HGKTNetworkClassifier(n_hidden=4, n_steps=2, random_state=0, device="cpu")
    model.write_to(checkpoint=checkpoint)
    stages = [{"n_steps": steps}, {"mu": [0.1, 0.5]}]
    search = ClassFoldSearch(model, stages, n_folds=2, progress=progress).fit(X, y, table)
    assert early == []
    # What is there is the run on all classes with what was chosen: such a run goes on from it.
    chosen = HGKTNetworkClassifier(**{**model.get_params(), **search.best_params_})
    written = checkpoint.read_bytes()
    chosen.write_to(checkpoint=checkpoint).fit(X, y, table)
    assert checkpoint.read_bytes() == written
    np.testing.assert_array_equal(chosen.class_embeddings_, search.class_embeddings_)


def test_search_without_files_writes_none(toy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y, table = training_data(toy)
    model = HGKTNetworkClassifier(n_hidden=4, n_steps=2, random_state=0, device="cpu")
    ClassFoldSearch(model, stages=[], n_folds=1).fit(np.abs(X), y, table)
    assert list(tmp_path.iterdir()) == []
