"""Numbers of every kind and size: against a slow oracle in float64, and never a silent NaN."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.members import MEMBERS

from hgkt.closed_form.ensemble import ATTRIBUTE_MAPS, KERNELS, N_METRICS, RIDGES
from hgkt.estimators import HGKTClassifier, load_model
from hgkt.estimators.scoring import rank_classes
from hgkt.evaluation import ClassFoldSearch
from hgkt.exceptions import ClassWarning, ConfidenceWarning, DataError

MANY = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def problems(draw):
    """Features (N, D), codes and attributes of seen classes, attributes of new ones, and how."""
    n_classes, n_new = draw(st.integers(2, 6)), draw(st.integers(1, 3))
    n_features = draw(st.sampled_from([1, 2, 5, 12, 90]))  # D above and far above N, too
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    counts = rng.integers(1, 5, n_classes) if draw(st.booleans()) else np.ones(n_classes, int)
    codes = np.repeat(np.arange(n_classes), counts)
    X = rng.random((n_classes, n_features))[codes] + 0.3 * rng.random((len(codes), n_features))
    if draw(st.booleans()):
        X[rng.integers(len(X))] = 0.0  # a row of zeros
    if draw(st.booleans()):
        X[:, rng.integers(n_features)] = 1.5  # a channel that says nothing
    if draw(st.booleans()):
        X *= rng.choice([-1.0, 1.0], size=X.shape)
    attributes = rng.random((n_classes + n_new, draw(st.integers(1, 6))))
    parameters = {
        "feature_map": draw(st.sampled_from(["sqrt+l2", "l2", "none", 0.25])),
        "shrinkage": draw(st.sampled_from([0.1, 0.5, 1.0])),
        "kernel": draw(st.sampled_from(["rbf", "quadratic", "linear"])),
        "norm_power": draw(st.sampled_from([0.0, 1.0, 1.2])),
        "observed": draw(st.booleans()),
        "ridge": 0.03,
    }
    return X, codes, attributes[:n_classes], attributes[n_classes:], parameters


def names(rows, prefix):
    return {f"{prefix}{index}": row for index, row in enumerate(rows)}


def fitted(X, codes, seen, new, parameters, **more):
    y = np.array([f"s{code}" for code in codes])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClassWarning)
        model = HGKTClassifier(**{"calibration": 0.0, "device": "cpu", **parameters, **more})
        model.fit(X, y, class_attributes=names(seen, "s"))
        return model.add_classes(names(new, "u"))


def slow_scores(X, codes, seen, new, parameters):
    """The definition in plain loops and float64: maps, scatter, metric, kernel, transfer, cosine.

    Returns scores, and where rounding decides nothing: what lies at the centre has no direction.
    """

    def unit(row):
        largest = np.abs(row).max()
        row = row / largest if largest > 0 else row
        length = np.sqrt((row**2).sum())
        return row / length if length > 0 else row

    def mapped(row, kind):
        if kind == "none":
            return row
        power = {"sqrt+l2": 0.5, "l2": 1.0}.get(kind, kind)
        return unit(np.sign(row) * np.abs(row) ** power)

    rows = np.array([mapped(row, parameters["feature_map"]) for row in X.astype(np.float64)])
    counts = np.bincount(codes)
    means = np.array([rows[codes == code].mean(axis=0) for code in range(len(counts))])
    inner = rows - means[codes]
    scatter = inner.T @ inner / len(rows)
    width = len(scatter)
    share = parameters["shrinkage"]
    shrunk = (1 - share) * scatter + share * np.trace(scatter) / width * np.eye(width)
    if not np.trace(scatter) > 0:
        shrunk = np.eye(width)
    center = means.mean(axis=0)
    inverse = np.linalg.inv(shrunk)
    tables = [np.array([mapped(row, "sqrt+l2") for row in table]) for table in (seen, new)]
    squared = [((one[:, None] - tables[0]) ** 2).sum(axis=2) for one in tables]
    above = squared[0][np.triu_indices(len(seen), 1)]
    median = np.median(above) if np.median(above) > 1e-12 else 1.0

    def kernel(index):
        products = tables[index] @ tables[0].T
        if parameters["kernel"] == "linear":
            return products
        if parameters["kernel"] == "quadratic":
            return (1 + products) ** 2 / 4
        return np.exp(-squared[index] / median)

    between = kernel(0)
    noise = parameters["ridge"] * np.diag(between).mean() * counts.mean() / counts
    weights = np.concatenate([between, kernel(1)]) @ np.linalg.inv(between + np.diag(noise))
    embeddings = weights @ (means - center)
    if parameters["observed"]:
        embeddings[: len(seen)] = means - center
    scores = np.zeros((len(rows), len(embeddings)))
    sure = np.zeros_like(scores, dtype=bool)
    size = np.sqrt(max(row @ inverse @ row for row in (*rows, center)))
    for i, row in enumerate(rows - center):
        length = np.sqrt(row @ inverse @ row)
        for c, z in enumerate(embeddings):
            own = np.sqrt(z @ inverse @ z)
            if min(length, own) > 1e-7 * size:
                sure[i, c] = True
                scores[i, c] = row @ inverse @ z / length / own ** parameters["norm_power"]
    return scores, sure


@MANY
@given(problems())
def test_scores_equal_the_slow_definition(problem):
    expected, sure = slow_scores(*problem)
    found = fitted(*problem).score_classes(problem[0])
    assert np.isfinite(found).all()
    scale = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(found[sure], expected[sure], rtol=0, atol=1e-7 * scale)


@MANY
@given(problems(), st.sampled_from([0.0, 0.1, -0.2]))
def test_predict_names_a_class_with_the_best_score(problem, gamma):
    model, X = fitted(*problem, calibration=gamma), problem[0]
    scores = model.score_classes(X)
    columns = np.searchsorted(model.classes_, model.predict(X))
    chosen = scores[np.arange(len(X)), columns]
    scale = max(1.0, np.abs(scores).max())
    np.testing.assert_allclose(chosen, scores.max(axis=1), rtol=0, atol=1e-9 * scale)


@MANY
@given(problems(), st.sampled_from([np.float16, np.float32, np.int32, np.uint8, bool]))
def test_every_kind_of_number_counts_as_what_it_is(problem, kind):
    X, *rest = problem
    X = (X * 20).astype(kind) if np.dtype(kind).kind in "iub" else X.astype(kind)
    model = fitted(X, *rest)
    same = X.astype(np.float32 if kind in (np.float16, np.float32) else np.float64)
    scores = fitted(same, *rest).score_classes(same)
    np.testing.assert_array_equal(model.score_classes(X), scores)
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("scale", [5e-324, 1e-310, 1e-40, 1e-20, 1.0, 1e15])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("feature_map", ["sqrt+l2", "l2", "none"])
def test_the_size_of_features_gives_no_silent_nan(scale, kind, feature_map):
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(4), 3)
    X = (scale * (1.0 + rng.random((4, 5))[codes] + 0.1 * rng.random((12, 5)))).astype(kind)
    rest = codes, rng.random((4, 3)), rng.random((2, 3)), {"feature_map": feature_map}
    for metric in ("cosine", "euclidean"):
        if (scale, kind, feature_map) == (1e-40, np.float32, "none"):
            with pytest.raises(DataError, match="too small to be compared in float32"):
                fitted(X, *rest, metric=metric)
            continue
        model = fitted(X, *rest, metric=metric)
        assert np.isfinite(model.score_classes(X)).all()
        with pytest.warns(ConfidenceWarning):
            assert np.isfinite(model.predict_proba(X)).all()


def test_features_too_large_are_refused_in_fit_and_predict():
    rng = np.random.default_rng(0)
    X, codes = rng.random((12, 5)), np.repeat(np.arange(4), 3)
    table, new = rng.random((4, 3)), rng.random((2, 3))
    with pytest.raises(DataError, match="length over 1e\\+18 in row 0"):
        fitted(1e30 * X, codes, table, new, {})
    model = fitted(X.astype(np.float32), codes, table, new, {})
    for call in (model.predict, model.score_classes):
        with pytest.raises(DataError, match="length over 1e\\+18 in row 0"):
            call(1e30 * X)
        with pytest.raises(DataError, match="NaN in row 0"):
            call(np.full((2, 5), np.nan, dtype=np.float32))


@pytest.mark.parametrize("scale", [1e-310, 1e-200, 1e30, 1e200, 1e307])
@pytest.mark.parametrize("attribute_map", ["sqrt+l2", "l2"])
def test_the_size_of_attributes_does_not_matter_once_they_are_mapped(scale, attribute_map):
    rng = np.random.default_rng(0)
    X, codes = rng.random((12, 5)), np.repeat(np.arange(4), 3)
    table, new = rng.random((4, 3)), rng.random((2, 3))
    parameters = {"attribute_map": attribute_map}
    expected = fitted(X, codes, table, new, parameters).score_classes(X)
    found = fitted(X, codes, scale * table, scale * new, parameters).score_classes(X)
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize(("kernel", "scale"), [("rbf", 1e200), ("quadratic", 1e90), ("linear", 0)])
def test_attributes_that_cannot_be_compared_are_refused(kernel, scale):
    rng = np.random.default_rng(0)
    X, codes = rng.random((12, 5)), np.repeat(np.arange(4), 3)
    table, new = rng.random((4, 3)), rng.random((2, 3))
    parameters = {"attribute_map": "none", "kernel": kernel}
    with pytest.raises(DataError, match="too large, or all too small"):
        fitted(X, codes, scale * table, new, parameters)
    if kernel == "quadratic":
        with pytest.raises(DataError, match="new class 1 of 2 are too large"):
            fitted(X, codes, table, 1e160 * new, parameters)
    if kernel == "rbf":  # far from all others, it is at their mean
        model = fitted(X, codes, table, 1e160 * new, parameters)
        np.testing.assert_array_equal(model.score_classes(X)[:, -2:], 0.0)


def test_half_precision_of_other_libraries_is_read():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(4), 3)
    X = torch.tensor(rng.random((12, 5)), dtype=torch.bfloat16)
    rest = codes, rng.random((4, 3)), rng.random((2, 3)), {}
    plain = X.float().numpy()
    expected = fitted(plain, *rest).score_classes(plain)
    np.testing.assert_array_equal(fitted(X, *rest).score_classes(X), expected)


def test_the_same_input_gives_the_same_bits():
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(8), 6)
    X = rng.random((48, 70)).astype(np.float32)
    rest = codes, rng.random((8, 3)), rng.random((3, 3)), {}
    first, second = (fitted(X, *rest, calibration="auto") for _ in range(2))
    assert first.gamma_ == second.gamma_
    np.testing.assert_array_equal(first.score_classes(X), second.score_classes(X))
    np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X))


@pytest.fixture(params=["torch", "cuda"])
def device(request, monkeypatch):
    """A GPU; and torch on the CPU by the same code, so that it runs where there is no GPU."""
    torch = pytest.importorskip("torch")
    if request.param == "cuda":
        if not torch.cuda.is_available():
            pytest.skip("there is no CUDA device")
        return "cuda"
    monkeypatch.setattr(
        "hgkt.estimators.hgkt.scoring_device", lambda name: {"torch": "cpu"}.get(name)
    )
    for module in ("grid", "transfer"):
        monkeypatch.setattr(
            f"hgkt.closed_form.{module}.fitting_device", lambda name: {"torch": "cpu"}.get(name)
        )
    return "torch"


WAYS = {
    "cosine": {"calibration": 0.1},
    "no map": {"feature_map": "none", "calibration": 0.1},
    "another power": {"feature_map": 0.25, "norm_power": 1.2, "calibration": -0.05},
    "euclidean": {"metric": "euclidean", "calibration": 0.02},
    "observed": {"observed": True, "calibration": 0.1},
    "ensemble": {"members": MEMBERS, "calibration": 0.1},
    "shared space": {
        "members": [
            {"prior": 0.6, "norm_power": 1.2},
            {"feature_map": "l2", "weight": 0.5, "prior": 0.3, "observed": True},
            {"kernel": "zero-shot", "weight": 0.5},
        ],
        "shared_space": True,
        "calibration": 0.1,
    },
}


def device_problem(kind, way=None):
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(20), 30)
    X = np.abs(rng.random((20, 128))[codes] + 0.2 * rng.normal(size=(600, 128))).astype(kind)
    X[3] = 0.0
    width = 128 if way == "shared space" else 10
    return X, codes, rng.random((20, width)), rng.random((5, width)), {}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("kind", "tolerance"), [(np.float64, 1e-9), (np.float32, 1e-4)])
def test_cpu_and_cuda_agree_on_scores_best_and_ranking(device, way, kind, tolerance):
    problem = device_problem(kind, way)
    X = problem[0]
    here, there = (fitted(*problem, **WAYS[way], device=d) for d in ("cpu", device))
    scores = here.score_classes(X)
    scale = max(1.0, np.abs(scores).max())
    np.testing.assert_allclose(there.score_classes(X), scores, rtol=0, atol=tolerance * scale)
    columns = here.candidates()
    chosen = scores[np.arange(len(X)), np.searchsorted(here.classes_, there.predict(X))]
    np.testing.assert_allclose(chosen, scores.max(axis=1), rtol=0, atol=2 * tolerance * scale)
    best, values = rank_classes(there, X, columns, 5)
    expected = rank_classes(here, X, columns, 5)[1]
    np.testing.assert_allclose(values, expected, rtol=0, atol=tolerance * scale)
    found = np.take_along_axis(scores, best, axis=1)
    np.testing.assert_allclose(found, expected, rtol=0, atol=2 * tolerance * scale)
    np.testing.assert_array_equal(there.score_classes(X), there.score_classes(X))


@pytest.mark.parametrize("way", WAYS)
def test_two_fits_on_cuda_agree_to_the_bit(device, way):
    problem = device_problem(np.float64, way)
    first, second = (fitted(*problem, **WAYS[way], device=device) for _ in range(2))
    np.testing.assert_array_equal(first.score_classes(problem[0]), second.score_classes(problem[0]))


def test_cpu_and_cuda_agree_on_what_is_added_and_saved(device, tmp_path):
    *problem, new, parameters = device_problem(np.float32)
    X = problem[0]
    there = fitted(*problem, new[:0], parameters, device=device)
    before = there.score_classes(X)
    there.predict(X)  # tables are on the device now, and grow there
    there.add_classes(names(new, "u"))
    here = fitted(*problem, new, parameters)
    np.testing.assert_array_equal(there.score_classes(X)[:, :20], before)
    np.testing.assert_allclose(there.score_classes(X), here.score_classes(X), atol=1e-4)
    there.remove_classes(["u1"])
    here.remove_classes(["u1"])
    np.testing.assert_allclose(there.score_classes(X), here.score_classes(X), atol=1e-4)
    if device == "cuda":
        there.save(tmp_path / "model")
        loaded = load_model(tmp_path / "model")
        np.testing.assert_array_equal(loaded.score_classes(X), there.score_classes(X))


def test_cpu_and_cuda_agree_on_what_is_selected(device):
    rng = np.random.default_rng(0)
    seen, codes = rng.random((24, 6)), np.repeat(np.arange(24), 25)
    means = np.abs(seen @ rng.normal(size=(6, 128)))
    X = np.abs(means[codes] + 0.9 * rng.normal(size=(len(codes), 128))).astype(np.float32)
    y = np.array([f"s{code:02d}" for code in codes])
    attributes = {f"s{code:02d}": row for code, row in enumerate(seen)}
    here, there = (
        ClassFoldSearch(HGKTClassifier(device=d), n_folds=2).fit(X, y, attributes)
        for d in ("cpu", device)
    )
    values = [{repr(r.params): r.mean for r in search.cv_results_} for search in (here, there)]
    both = values[0].keys() & values[1].keys()
    plain = [
        {
            repr(r.params)
            for r in search.cv_results_
            if (r.params.get("norm_power"), r.params.get("observed")) == (1.1, False)
            and not r.params["relevance"]
        }
        for search in (here, there)
    ]
    # The same metrics stay, with every kernel and ridge; near-equals of a kind take turns.
    assert plain[0] == plain[1]
    assert len(plain[0]) == N_METRICS * len(KERNELS) * len(ATTRIBUTE_MAPS) * len(RIDGES)
    # In percent: rounding moves a row whose two best classes are nearly equal.
    assert max(abs(values[0][key] - values[1][key]) for key in both) < 0.5
    assert here.best_score_ == pytest.approx(there.best_score_, abs=0.5)
    assert here.calibration_.offset == pytest.approx(there.calibration_.offset, abs=0.02)
    assert there.best_estimator_.confidence_ is not None
