import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics.pairwise import cosine_similarity
from tests.folds import make_fold

from hgkt.baselines.shared_space import (
    GDAClassifier,
    TipAdapterClassifier,
    ZeroShotClassifier,
)
from hgkt.data import GZSLDataset, make_synthetic
from hgkt.estimators import METHODS
from hgkt.evaluation import evaluate
from hgkt.exceptions import DataError

METHODS_OF_ONE_SPACE = [name for name, entry in METHODS.items() if entry.shared_space]


@pytest.fixture(scope="module")
def space():
    """Rows around a direction per class, and descriptions near these: six seen, three new."""
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(9, 8))
    names = np.array([f"class {letter}" for letter in "abcdefghi"])
    vectors = directions + 0.4 * rng.normal(size=(9, 8)) + 1.0
    codes = np.repeat(np.arange(9), [30, 30, 30, 30, 5, 1, 20, 20, 20])
    X = directions[codes] + 0.8 * rng.normal(size=(len(codes), 8))
    table = dict(zip(names.tolist(), vectors, strict=True))
    seen = codes < 6
    return {
        "X": X[seen], "y": names[codes[seen]], "X_new": X[~seen], "y_new": names[codes[~seen]],
        "seen": {n: table[n] for n in names[:6].tolist()},
        "unseen": {n: table[n] for n in names[6:].tolist()},
    }  # fmt: skip


def fitted(space, model):
    return model.fit(space["X"], space["y"], space["seen"]).add_classes(space["unseen"])


def unit(rows):
    rows = np.asarray(rows, dtype=np.float64)
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def test_zero_shot_scores_are_scikit_learns_cosines(space):
    model = fitted(space, ZeroShotClassifier())
    vectors = [*space["seen"].values(), *space["unseen"].values()]
    np.testing.assert_allclose(
        model.score_classes(space["X_new"]), cosine_similarity(space["X_new"], vectors), atol=1e-12
    )


def test_tip_adapter_scores_are_the_formula_written_out(space):
    model = fitted(space, TipAdapterClassifier(alpha=0.3, beta=4.0, n_shots=5))
    ends = [*model.starts_[1:], len(model.keys_)]
    assert np.diff([*model.starts_, len(model.keys_)]).tolist() == [5, 5, 5, 5, 5, 1]
    expected = np.zeros((len(space["X_new"]), 9))
    for row, x in enumerate(unit(space["X_new"])):
        for column, t in enumerate([*space["seen"].values(), *space["unseen"].values()]):
            expected[row, column] = x @ unit(t)
            if column < 6:
                for key in model.keys_[model.starts_[column] : ends[column]]:
                    expected[row, column] += 0.3 * np.exp(-4.0 * (1.0 - x @ key))
    np.testing.assert_allclose(model.score_classes(space["X_new"]), expected, atol=1e-10)


def test_tip_adapter_keeps_rows_of_the_class_that_the_seed_draws(space):
    first, again, other = (
        fitted(space, TipAdapterClassifier(n_shots=4, random_state=seed)) for seed in (0, 0, 1)
    )
    assert np.array_equal(first.keys_, again.keys_)
    assert not np.array_equal(first.keys_, other.keys_)
    rows = unit(space["X"])
    for code, name in enumerate(space["seen"]):
        start = first.starts_[code]
        own = rows[space["y"] == name]
        kept = first.keys_[start : start + min(4, len(own))]
        assert (np.abs(own[None] - kept[:, None]).max(axis=2).min(axis=1) < 1e-12).all()


def test_tip_adapter_without_its_cache_is_zero_shot(space):
    model, plain = (
        fitted(space, TipAdapterClassifier(alpha=0.0)),
        fitted(space, ZeroShotClassifier()),
    )
    X = space["X"]
    np.testing.assert_allclose(model.score_classes(X), plain.score_classes(X), atol=1e-12)


class _Covariance:
    """What scikit-learn takes for a way to estimate a covariance."""

    def __init__(self, covariance):
        self.covariance_ = covariance

    def fit(self, X):
        return self

    def get_params(self, deep=True):
        return {}


def precision(space):
    """Return the authors' estimate as their code has it: D (S + tr(cov) I)⁻¹ of centred rows."""
    X, y = unit(space["X"]), space["y"]
    centred = np.concatenate([X[y == name] - X[y == name].mean(axis=0) for name in space["seen"]])
    n, d = centred.shape
    covariance = np.cov(centred.T)
    return d * np.linalg.pinv((n - 1) * covariance + np.trace(covariance) * np.eye(d))


def test_gda_of_means_alone_is_scikit_learns_discriminant_analysis(space):
    model = fitted(space, GDAClassifier(alpha=0.0, comparison="linear"))
    reference = LinearDiscriminantAnalysis(
        solver="lsqr",
        priors=np.full(6, 1 / 6),
        covariance_estimator=_Covariance(np.linalg.inv(precision(space))),
    ).fit(unit(space["X"]), space["y"])
    expected = reference.decision_function(unit(space["X_new"]))
    found = model.score_classes(space["X_new"])[:, :6]
    # A term that all classes have is left out.
    np.testing.assert_allclose(
        found - found[:, :1], expected - expected[:, :1], rtol=1e-7, atol=1e-7
    )
    assert (model.predict(space["X"], "seen") == reference.predict(unit(space["X"]))).all()


@pytest.mark.parametrize("alpha", [0.3, 1.0])
def test_gda_averages_the_classifiers_of_mean_and_description(space, alpha):
    model = fitted(space, GDAClassifier(alpha=alpha, description_scale=0.4, comparison="linear"))
    P, X, rows = precision(space), unit(space["X"]), unit(space["X_new"])
    means = np.array([X[space["y"] == name].mean(axis=0) for name in space["seen"]])
    vectors = unit([*space["seen"].values(), *space["unseen"].values()])
    centres = means.mean(axis=0) + 0.4 * (vectors - vectors[:6].mean(axis=0))

    def discriminant(z):
        return -0.5 * np.einsum("nkd,de,nke->nk", rows[:, None] - z, P, rows[:, None] - z)

    expected = discriminant(centres)
    expected[:, :6] = alpha * expected[:, :6] + (1 - alpha) * discriminant(means)
    found = model.score_classes(space["X_new"])
    np.testing.assert_allclose(found - found[:, -1:], expected - expected[:, -1:], atol=1e-7)


def test_gda_survives_classes_of_one_row_each():
    X, y = np.eye(3), np.array(["a", "b", "c"])
    model = GDAClassifier().fit(X, y, dict(zip("abc", np.eye(3) + 0.1, strict=True)))
    assert model.predict(X).tolist() == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("model", "grid"),
    [
        (TipAdapterClassifier(), {"alpha": [0.0, 0.1], "beta": [1.0, 9.0]}),
        (GDAClassifier(), {"alpha": [0.0, 0.6], "comparison": ["linear", "cosine"]}),
    ],
)
def test_a_grid_equals_separate_fits(space, model, grid):
    (first, ours), (second, others) = grid.items()
    settings = [{first: a, second: b} for a in ours for b in others]
    fold = make_fold(space["X"], space["y"], space["seen"], space["unseen"], space["X_new"])
    found = dict(model.score_grid(settings, fold))
    for index, setting in enumerate(settings):
        separate = fitted(space, type(model)(**setting))
        np.testing.assert_allclose(found[index], separate.score_classes(space["X_new"]), rtol=1e-9)


@pytest.mark.parametrize("name", METHODS_OF_ONE_SPACE)
def test_without_a_shared_space_they_are_refused(name):
    data = make_synthetic(n_features=12, n_attributes=5, n_seen=6, n_unseen=2)
    expected = "class vectors have 5 numbers and rows 12 features; .* encoders of one space"
    with pytest.raises(DataError, match=expected):
        METHODS.load(name)().fit(*data.rows("train"), data.attributes_of(data.seen_classes))
    with pytest.raises(DataError, match=expected):
        evaluate(METHODS.load(name)(), data, select=True)


@pytest.mark.parametrize("name", METHODS_OF_ONE_SPACE)
def test_they_are_evaluated_and_selected_like_every_method(name):
    rng = np.random.default_rng(1)
    directions = rng.normal(size=(30, 12))
    labels = np.repeat(np.arange(30), 12)
    data = GZSLDataset(
        name="one space",
        features=directions[labels] + 0.5 * rng.normal(size=(360, 12)),
        labels=labels,
        class_names=tuple(f"class {number}" for number in range(30)),
        class_attributes=directions + 0.3 * rng.normal(size=(30, 12)),
        train=np.flatnonzero((labels < 22) & (np.arange(360) % 3 > 0)),
        test_seen=np.flatnonzero((labels < 22) & (np.arange(360) % 3 == 0)),
        test_unseen=np.flatnonzero(labels >= 22),
    ).validate()
    record = evaluate(METHODS.load(name)(), data, select=True)
    assert record.metrics.H > 60
    offered = {key for stage in METHODS.load(name)().default_stages() for key in stage}
    assert set(record.selected) == {"calibration", *offered}


def test_wrong_parameters_are_refused(space):
    for model, name in (
        (TipAdapterClassifier(alpha=-1.0), "alpha"),
        (TipAdapterClassifier(n_shots=0), "n_shots"),
        (GDAClassifier(alpha=1.5), "alpha"),
        (GDAClassifier(description_scale=0.0), "description_scale"),
        (GDAClassifier(comparison="euclidean"), "comparison"),
    ):
        with pytest.raises(DataError, match=f"^{name} must be"):
            fitted(space, model)
