"""Ensembles of closed forms against the same sums written out."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.folds import matrix_fold

from hgkt import HGKTClassifier, load_model
from hgkt._arrays import map_rows
from hgkt.closed_form import ClosedFormTransfer, Ensemble, Member
from hgkt.closed_form.ensemble import single_setting
from hgkt.closed_form.grid import FoldScorer, score_grid
from hgkt.closed_form.relevance import attribute_relevance

RNG = np.random.default_rng(3)
COUNTS = [12, 4, 7, 9, 5, 20]
CODES = np.repeat(np.arange(6), COUNTS)
X = np.abs(4 * RNG.random((6, 8))[CODES] + RNG.normal(size=(len(CODES), 8)))
ROWS = np.abs(RNG.normal(size=(9, 8))) + 0.1
# Three attributes, then a description that may lie in the space of the eight features.
A, N = RNG.random((6, 11)), RNG.random((2, 11))
NAMES = [f"class {i}" for i in range(6)]
LABELS = np.array(NAMES)[CODES]
FIRST = {"feature_map": "sqrt+l2", "shrinkage": 0.7, "kernel": "rbf", "kernel_scale": 0.5,
         "attribute_map": "l2", "ridge": 0.01, "norm_power": 1.2, "weight": 2.0}  # fmt: skip
SECOND = {"feature_map": "l2", "shrinkage": 0.4, "kernel": "quadratic", "ridge": 0.2,
          "norm_power": 1.0, "weight": 0.5}  # fmt: skip
THIRD = {"feature_map": "sqrt+l2", "shrinkage": 0.2, "kernel": "linear", "attribute_map": "none",
         "ridge": 0.05, "norm_power": 0.0}  # fmt: skip
SAME_METRIC = {"feature_map": "l2", "shrinkage": 0.4, "kernel": "rbf", "kernel_scale": 2.0,
               "ridge": 1.0, "norm_power": 1.3, "weight": 0.3}  # fmt: skip
ZERO_SHOT = {"kernel": "zero-shot", "weight": 0.75}
SPACE = {"shared_space": True}
BLOCK = {"shared_space": 1, "attribute_blocks": [3, 8]}

# Members, and what is shared.
CASES: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "several": ([FIRST, SECOND, THIRD, SAME_METRIC], {}),
    "observed": ([FIRST | {"observed": True}, SECOND, SAME_METRIC | {"observed": True}], {}),
    "relevance": (
        [FIRST | {"relevance": True}, SECOND | {"relevance": True}, THIRD | {"relevance": True}],
        {},
    ),
    "blocks": (
        [FIRST | {"block_weights": [0.25, 0.75]}, SECOND, THIRD | {"block_weights": [0.0, 1.0]}],
        {"attribute_blocks": [3, 8]},
    ),
    "uniform": ([FIRST, SECOND], {"weighting": "uniform"}),
    "prior": ([FIRST | {"prior": 0.6}, SECOND | {"prior": 1.0}, THIRD], SPACE),
    "zero-shot": ([FIRST, SECOND, ZERO_SHOT], SPACE),
    "everything": (
        [FIRST | {"prior": 0.3, "observed": True}, SECOND | {"prior": 0.6, "relevance": True},
         SAME_METRIC | {"prior": 1.0, "block_weights": [0.5, 0.5]}, ZERO_SHOT],
        BLOCK,
    ),
    "euclidean": (
        [FIRST, FIRST | {"kernel": "linear", "weight": 0.5, "observed": True},
         FIRST | {"ridge": 0.3, "relevance": True, "weight": 1.0}],
        {"metric": "euclidean"},
    ),
    "euclidean prior": (
        [FIRST | {"prior": 0.6}, FIRST | {"kernel": "linear", "weight": 0.5}],
        {"metric": "euclidean"} | BLOCK,
    ),
}  # fmt: skip
COSINES = [name for name, (_, shared) in CASES.items() if "metric" not in shared]


def tables(shared):
    """Attributes of seen and of new classes; all eleven numbers, or those in the space alone."""
    some = slice(3, None) if shared.get("shared_space") is True else slice(None)
    return A[:, some], N[:, some]


def named(shared):
    seen, new = tables(shared)
    return dict(zip(NAMES, seen, strict=True)), {f"new {i}": row for i, row in enumerate(new)}


def unfitted(name, **parameters):
    members, shared = CASES[name]
    return HGKTClassifier(**{"members": members, "calibration": 0, **shared, **parameters})


def fitted(name, **parameters):
    seen, new = named(CASES[name][1])
    return unfitted(name, **parameters).fit(X, LABELS, seen).add_classes(new)


def ensemble_of(name, **more):
    members, shared = CASES[name]
    return Ensemble.from_list(members, **shared, **more)


def whitened(member):
    """Return the seen means, rows and a function for descriptions, in the metric of a member."""
    phi, x = map_rows(X, member["feature_map"]), map_rows(ROWS, member["feature_map"])
    means = np.stack([phi[c == CODES].mean(axis=0) for c in range(6)])
    residuals = phi - means[CODES]
    scatter = residuals.T @ residuals / len(X)
    s = member["shrinkage"]
    shrunk = (1 - s) * scatter + s * np.trace(scatter) / 8 * np.eye(8)
    values, vectors = np.linalg.eigh(shrunk)
    root, center = vectors / np.sqrt(values), means.mean(axis=0)

    def described(texts):
        mapped = map_rows(texts, member["feature_map"])
        return (mapped - mapped[:6].mean(axis=0)) @ root

    return (means - center) @ root, (x - center) @ root, described


def kernel_between(member, attributes, blocks, means):
    """k (8, 6) of all classes with the seen ones."""
    parts = np.split(attributes, np.cumsum(blocks)[:-1], axis=1) if blocks else [attributes]
    weights = np.array(member.get("block_weights") or [1.0] * len(parts))
    total = 0.0
    for weight, part in zip(weights / weights.sum(), parts, strict=True):
        rows = map_rows(part, member.get("attribute_map", "sqrt+l2"))
        if member.get("relevance"):
            noise = 0.03 * np.mean(COUNTS) / np.array(COUNTS)
            factors = np.sqrt(attribute_relevance(rows[:6], means @ means.T, noise))
            rows = rows * factors / np.linalg.norm(rows[:6] * factors, axis=1).mean()
        products = rows @ rows[:6].T
        if member["kernel"] == "linear":
            kernel = products
        elif member["kernel"] == "quadratic":
            kernel = (1 + products) ** 2 / 4
        else:
            squared = ((rows[:, None] - rows[:6]) ** 2).sum(axis=2)
            median = np.median(squared[:6][np.triu_indices(6, 1)])
            kernel = np.exp(-member.get("kernel_scale", 1.0) * squared / median)
        total = total + weight * kernel
    return total


def embeddings(member, shared):
    """Return z (8, D) of all classes and the rows (n, D), by the formulas."""
    attributes = np.concatenate(tables(shared))
    means, x, described = whitened(member)
    kernel = kernel_between(member, attributes, shared.get("attribute_blocks"), means)
    counts = np.array(COUNTS) if shared.get("weighting") != "uniform" else np.full(6, 7.0)
    noise = member["ridge"] * np.diag(kernel[:6]).mean() * counts.mean() / counts
    prior = member.get("prior", 0.0) * described(attributes[:, -8:])
    carried = np.linalg.inv(kernel[:6] + np.diag(noise)) @ (means - prior[:6])
    z = prior + kernel @ carried
    if member.get("observed"):
        z[:6] = means
    return z, x


def written_out(name):
    """Scores (n, 8) by the formulas, seen classes first."""
    members, shared = CASES[name]
    total = np.zeros((len(ROWS), 8))
    joint = [member for member in members if member["kernel"] != "zero-shot"]
    sum_of_weights = sum(member.get("weight", 1.0) for member in joint)
    for member in joint:
        z, x = embeddings(member, shared)
        weight = member.get("weight", 1.0)
        if shared.get("metric") == "euclidean":
            squares = ((x[:, None] - z) ** 2).sum(axis=2)
            total -= weight / sum_of_weights * squares
            continue
        lengths = np.linalg.norm(z, axis=1)
        cosines = x @ z.T / np.linalg.norm(x, axis=1)[:, None] / lengths
        total += weight * cosines / lengths ** (member["norm_power"] - 1.0)
    for member in members:
        if member["kernel"] == "zero-shot":
            texts = np.concatenate(tables(shared))[:, -8:]
            products = ROWS @ texts.T / np.linalg.norm(texts, axis=1)
            total += member["weight"] * products / np.linalg.norm(ROWS, axis=1)[:, None]
    return total


def close(found, expected, tolerance):
    np.testing.assert_allclose(
        found, expected, rtol=0, atol=tolerance * max(1.0, np.abs(expected).max())
    )


# ---------------------------------------------------------------------- scores
@pytest.mark.parametrize("name", CASES)
def test_scores_match_the_formulas_written_out(name):
    close(fitted(name).score_classes(ROWS), written_out(name), 1e-9)


@pytest.mark.parametrize("name", CASES)
def test_every_member_makes_a_difference(name):
    """Else the formulas could not tell one that was left out, or taken for another."""
    members = CASES[name][0]
    whole = fitted(name).score_classes(ROWS)
    for index in range(len(members)):
        rest = [*members[:index], *members[index + 1 :]]
        found = fitted(name, members=rest).score_classes(ROWS)
        assert np.abs(found - whole).max() > 1e-3, index


@pytest.mark.parametrize("name", CASES)
def test_scores_of_a_fold_are_those_of_a_fit(name):
    data = matrix_fold(X, CODES, *tables(CASES[name][1]), ROWS)
    expected, ensemble = fitted(name).score_classes(ROWS), ensemble_of(name)
    close(expected, written_out(name), 1e-9)
    (_, found), (_, again) = score_grid([ensemble, ensemble], data)
    close(found, expected, 1e-9)
    np.testing.assert_array_equal(again, found)
    rough = FoldScorer(data, ensemble.metric_keys, ensemble).scores(ensemble)
    assert rough.dtype == np.float32
    close(rough, expected, 2e-4)


def test_a_grid_of_ensembles_keeps_them_apart():
    """Of one grid each has its own comparison, weighting and blocks, in any order."""
    names = [name for name, (_, shared) in CASES.items() if shared.get("shared_space") is not True]
    data = matrix_fold(X, CODES, A, N, ROWS)
    found = dict(score_grid([ensemble_of(name) for name in names], data))
    for index, name in enumerate(names):
        close(found[index], written_out(name), 1e-9)


@pytest.mark.parametrize("name", CASES)
def test_a_fold_on_a_torch_device_scores_as_numpy(name):
    pytest.importorskip("torch")
    data, ensemble = matrix_fold(X, CODES, *tables(CASES[name][1]), ROWS), ensemble_of(name)
    there = FoldScorer(data, ensemble.metric_keys, ensemble, "float64", "cpu")
    close(there.scores(ensemble), written_out(name), 1e-8)


def test_scorers_answer_members_in_any_order():
    """What is kept of the last kernel and ridge is never taken for another's."""
    name = "everything"
    ensemble = ensemble_of(name)
    members = list(ensemble.members)
    members += [replace(m, prior=0.0, norm_power=1.0) for m in members]
    members += [replace(m, ridge=0.5, observed=not m.observed) for m in members]
    data = matrix_fold(X, CODES, *tables(CASES[name][1]), ROWS)
    kept = FoldScorer(data, ensemble.metric_keys, ensemble, "float64")
    for number in np.random.default_rng(0).integers(0, len(members), 40):
        one = replace(ensemble, members=(members[number],), zero_shot=0.0)
        fresh = FoldScorer(data, ensemble.metric_keys, ensemble, "float64")
        np.testing.assert_allclose(kept.scores(one), fresh.scores(one), atol=1e-12)


def test_zero_shot_of_a_fold_is_the_plain_cosine():
    data = matrix_fold(X, CODES, *tables(SPACE), ROWS)
    ensemble = ensemble_of("zero-shot")
    found = FoldScorer(data, ensemble.metric_keys, ensemble, "float64").zero_shot()
    texts = np.concatenate(tables(SPACE))
    expected = ROWS @ texts.T / np.linalg.norm(texts, axis=1)
    expected /= np.linalg.norm(ROWS, axis=1)[:, None]
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("name", ["several", "relevance", "observed"])
def test_rough_scores_of_fewer_rows_than_features_are_those_of_a_fit(name):
    wide = np.random.default_rng(5).normal(size=(8, 90))  # 57 rows span a part of 90 features
    data = matrix_fold(np.abs(X @ wide), CODES, A, N, np.abs(ROWS @ wide))
    ensemble = ensemble_of(name, device="cpu")
    (_, expected), *_ = score_grid([ensemble], data)
    rough = FoldScorer(data, ensemble.metric_keys, ensemble).scores(ensemble)
    assert rough.dtype == np.float32
    close(rough, expected, 2e-4)


@pytest.mark.parametrize("member", [
    Member("l2", 0.3, "quadratic", 1.0, "l2", ridge=0.05, norm_power=1.1),
    Member(0.25, "oas", "rbf", 2.0, "none", relevance=True, observed=True),
    Member(kernel="linear", prior=0.4),
])  # fmt: skip
def test_an_ensemble_of_one_is_the_single_setting(member):
    shared = SPACE if member.prior else {}
    seen, new = named(shared)
    found = []
    for given in (single_setting(member), {"members": Ensemble((member,), **shared).to_list()}):
        model = HGKTClassifier(calibration=0, **{**given, **shared})
        found.append(model.fit(X, LABELS, seen).add_classes(new).score_classes(ROWS))
    np.testing.assert_array_equal(*found)


def test_the_unit_of_weights_scales_cosines_and_leaves_distances():
    for name in ("several", "euclidean"):
        doubled = [m | {"weight": 2.0 * m.get("weight", 1.0)} for m in CASES[name][0]]
        factor = 1.0 if name == "euclidean" else 2.0
        found = fitted(name, members=doubled).score_classes(ROWS)
        close(found, factor * fitted(name).score_classes(ROWS), 1e-12)


# ---------------------------------------------------------------------- explanations
@pytest.mark.parametrize("name", COSINES)
def test_explanations_are_exact(name):
    model = fitted(name, calibration=0.3)
    scores = model.score_classes(ROWS)
    for explanation, own in zip(model.explain(ROWS), scores, strict=True):
        penalty = 0.3 if explanation.label in NAMES else 0.0
        total = sum(pull.weight for pull in explanation.pulls) + explanation.description - penalty
        assert total == pytest.approx(explanation.score, abs=1e-9)
        assert explanation.score == own.max()
    # Of a class that comes out best as of all others.
    for column, label in enumerate(model.classes_):
        for row, own in zip(ROWS, scores, strict=True):
            pulled = sum(pull.weight for pull in model.pulls_of(row, label))
            described = model._pulls(row[None], column)[1]
            penalty = 0.3 if label in NAMES else 0.0
            assert pulled + described - penalty == pytest.approx(own[column], abs=1e-9)


@pytest.mark.parametrize("shared", [{}, SPACE, BLOCK])
def test_only_a_shared_space_has_pulls_of_descriptions(shared):
    seen, new = named(shared)
    member = FIRST | ({"prior": 0.6} if shared else {})
    model = HGKTClassifier(members=[member], calibration=0, **shared)
    model.fit(X, LABELS, seen).add_classes(new)
    described = [one.description for one in model.explain(ROWS)]
    assert any(described) == bool(shared)
    assert model.explain_class("new 0").description == pytest.approx(0.6 if shared else 0.0)


def test_explanations_of_a_class_that_grew_are_exact():
    model = fitted("everything").partial_fit(ROWS[:3] + 1.0, ["new 0"] * 3)
    scores = model.score_classes(ROWS)
    column = model.classes_.tolist().index("new 0")
    for row, own in zip(ROWS, scores[:, column], strict=True):
        pulled = sum(pull.weight for pull in model.pulls_of(row, "new 0"))
        assert pulled + model._pulls(row[None], column)[1] == pytest.approx(own, abs=1e-9)


@pytest.mark.parametrize("change", [
    {}, {"observed": True}, {"prior": 0.6}, {"prior": 0.6, "observed": True},
    {"relevance": True, "kernel": "linear"},
])  # fmt: skip
def test_sources_of_a_single_member_give_its_embedding(change):
    member, shared = FIRST | change, SPACE if "prior" in change else {}
    seen, new = named(shared)
    model = HGKTClassifier(members=[member], calibration=0, **shared)
    model.fit(X, LABELS, seen).add_classes(new)
    means, _, described = whitened(member)
    texts = described(np.concatenate(tables(shared))[:, -8:])
    z, _ = embeddings(member, shared)
    for column, label in enumerate(model.classes_):
        explained = model.explain_class(label)
        sources = {s.label: s.weight for s in explained.sources}
        weights = np.array([sources.get(name, 0.0) for name in NAMES])
        stays = label in NAMES and member.get("observed", False)
        residuals = means if stays else means - member.get("prior", 0.0) * texts[:6]
        made = weights @ residuals + explained.description * texts[column]
        np.testing.assert_allclose(made, z[column], atol=1e-9)
        # A row of the table is the embedding, in axes of its own and divided by its length.
        length = np.linalg.norm(z[column])
        row = np.linalg.norm(model.class_embeddings_[column])
        assert row == pytest.approx(2.0 * length ** (1.0 - 1.2), rel=1e-9)
    products = z @ z.T / (np.outer(*[np.linalg.norm(z, axis=1) ** 1.2] * 2)) * 4.0
    rows = model.class_embeddings_
    np.testing.assert_allclose(rows @ rows.T, products, atol=1e-9)


def test_sources_are_averaged_over_members_by_their_weights():
    name = "everything"
    model, members = fitted(name), CASES[name][0]
    alone = [
        fitted(name, members=[member | {"weight": 1.0}]).explain_class for member in members[:-1]
    ]
    shares = np.array([m.get("weight", 1.0) for m in members])
    for label in model.classes_:
        expected, described = np.zeros(6), ZERO_SHOT["weight"]
        for share, explain in zip(shares, alone, strict=False):
            sources = {s.label: s.weight for s in explain(label).sources}
            expected += share * np.array([sources.get(name, 0.0) for name in NAMES])
            described += share * explain(label).description
        found = {s.label: s.weight for s in model.explain_class(label).sources}
        weights = [found.get(name, 0.0) for name in NAMES]
        np.testing.assert_allclose(weights, expected / shares.sum(), atol=1e-9)
        assert model.explain_class(label).description == pytest.approx(described / shares.sum())


# ---------------------------------------------------------------------- growing and saving
@pytest.mark.parametrize("name", CASES)
def test_an_ensemble_that_learns_in_batches_is_the_model_of_one_full_fit(name):
    rows = np.abs(np.random.default_rng(4).normal(size=(7, 8))) + 1.0
    seen, new = named(CASES[name][1])
    model, table = fitted(name).remove_classes(["new 0"]), {"new 0": new["new 0"]}
    for part in (rows[:3], rows[3:]):
        model.partial_fit(part, ["new 0"] * len(part), class_attributes=table)
    model.grow({"class 2": model.example_sums(ROWS[:4])})
    y = np.concatenate([LABELS, ["new 0"] * 7, ["class 2"] * 4])
    whole = unfitted(name).fit(np.concatenate([X, rows, ROWS[:4]]), y, {**seen, **table})
    whole.add_classes({"new 1": new["new 1"]})
    close(model.score_classes(ROWS), whole.score_classes(ROWS), 1e-8)


@pytest.mark.parametrize("name", CASES)
def test_a_class_that_grew_and_goes_leaves_the_model_as_it_was(name):
    model = fitted(name)
    before = model.score_classes(ROWS)
    by_rows = fitted(name).partial_fit(ROWS[:4], ["new 1"] * 4).score_classes(ROWS)
    model.grow({"new 1": model.example_sums(ROWS[:4])})
    close(model.score_classes(ROWS), by_rows, 1e-8)
    assert np.abs(by_rows - before).max() > 1e-3
    model.remove_classes(["new 1"])
    close(model.score_classes(ROWS), before[:, :7], 1e-8)
    model.add_classes({"new 1": named(CASES[name][1])[1]["new 1"]})
    close(model.score_classes(ROWS), before, 1e-8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", CASES)
def test_a_saved_ensemble_scores_the_same_and_goes_on(tmp_path, name, dtype):
    seen, new = named(CASES[name][1])
    model = unfitted(name).fit(X.astype(dtype), LABELS, seen).add_classes(new)
    rows = ROWS.astype(dtype)
    loaded = load_model(model.save(tmp_path / "model"))
    assert loaded.get_params() == model.get_params()
    assert loaded._settings() == model._settings()
    np.testing.assert_array_equal(loaded.score_classes(rows), model.score_classes(rows))
    for either in (model, loaded):
        either.add_classes({"later": 0.5 * (new["new 0"] + seen["class 3"])})
    # Products with arrays that lie otherwise in memory are rounded otherwise.
    rounding = 1e-14 if dtype == np.float64 else 1e-6
    close(loaded.score_classes(rows), model.score_classes(rows), rounding)
    for one, other in zip(model.explain(rows), loaded.explain(rows), strict=True):
        assert other.description == pytest.approx(one.description, abs=1e-6)
        assert other.label == one.label
    for either in (model, loaded):
        either.partial_fit(rows, ["later"] * len(rows))
    tolerance = 1e-9 if dtype == np.float64 else 1e-4
    close(loaded.score_classes(rows), model.score_classes(rows), tolerance)
    if name == "relevance":
        np.testing.assert_allclose(loaded.attribute_relevance_, model.attribute_relevance_)
        assert model.attribute_relevance_.mean() == pytest.approx(1.0)


def test_relevance_is_averaged_over_the_members_that_weigh():
    members = CASES["relevance"][0]
    alone = [fitted("relevance", members=[m]).attribute_relevance_ for m in members]
    weights = [m.get("weight", 1.0) for m in members]
    found = fitted("relevance", members=[*members, SAME_METRIC]).attribute_relevance_
    np.testing.assert_allclose(found, np.average(alone, axis=0, weights=weights))
    assert not np.allclose(alone[0], alone[1])  # each is learned in its member's own metric


@pytest.mark.parametrize("name", CASES)
def test_members_survive_json(name):
    ensemble = ensemble_of(name)
    text = json.dumps(ensemble.to_list())
    assert Ensemble.from_list(json.loads(text), **CASES[name][1]) == ensemble


# ---------------------------------------------------------------------- how classes hang together
def test_what_members_share_is_made_once():
    transfer = ClosedFormTransfer(ensemble_of("several"))
    transfer.fit(X, CODES, A)
    assert len(transfer.spaces) == 2  # feature maps
    assert len(transfer.settings.metric_keys) == 3
    twins = Ensemble((Member(), Member(norm_power=1.2, weight=2.0), Member(observed=True)))
    transfer = ClosedFormTransfer(twins)
    transfer.fit(X, CODES, A)
    assert len(transfer.processes) == 1
    assert transfer.embed(N).shape == (2, 8)  # and one embedding for all


def test_variances_are_averaged_over_members_by_their_weights():
    members, held_out = ensemble_of("several").members, np.array([1, 4])
    found = ClosedFormTransfer(Ensemble(members))
    found.fit(X, CODES, A)
    parts = []
    for member in members:
        one = ClosedFormTransfer(Ensemble((member,)))
        one.fit(X, CODES, A)
        parts.append((one.variances(N), one.left_out_variances(), one.variances_without(held_out)))
    weights = [member.weight for member in members]
    ours = found.variances(N), found.left_out_variances(), found.variances_without(held_out)
    for part, own in zip(zip(*parts, strict=True), ours, strict=True):
        np.testing.assert_allclose(own, np.average(part, axis=0, weights=weights), atol=1e-12)


def test_vectors_without_classes_are_those_written_out():
    """Metric, centre, medians and mean description stay those of all classes."""
    held_out, rest = np.array([1, 4]), np.array([0, 2, 3, 5])
    members, shared = CASES["prior"]
    transfer = ClosedFormTransfer(ensemble_of("prior"))
    transfer.fit(X, CODES, tables(shared)[0])
    found = transfer.vectors_without(held_out)
    for member, own in zip(members, found, strict=True):
        means, _, described = whitened(member)
        seen = tables(shared)[0]
        kernel = kernel_between(member, np.concatenate(tables(shared)), None, means)[:6]
        noise = member["ridge"] * np.diag(kernel).mean() * np.mean(COUNTS) / np.array(COUNTS)
        prior = member.get("prior", 0.0) * described(seen)
        inverse = np.linalg.inv((kernel + np.diag(noise))[np.ix_(rest, rest)])
        z = prior + kernel[:, rest] @ inverse @ (means - prior)[rest]
        np.testing.assert_allclose(own @ own.T, z @ z.T, atol=1e-8 * np.abs(z @ z.T).max())


def test_noise_of_a_mean_falls_with_its_instances():
    counts = np.array([1.0, 10.0, 19.0])
    noise = Ensemble().noise(0.1, counts, 2.0 * np.eye(3))
    np.testing.assert_allclose(noise, [2.0, 0.2, 2 / 19], rtol=1e-12)
    uniform = Ensemble(weighting="uniform")
    np.testing.assert_allclose(uniform.noise(0.3, counts, np.eye(3)), [0.3] * 3)
