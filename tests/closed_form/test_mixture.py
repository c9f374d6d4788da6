"""Mixtures of closed forms against the same sums written out."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from tests.folds import matrix_fold

from hgkt import HGKTClassifier, load_model
from hgkt._arrays import map_rows
from hgkt.closed_form import KernelTerm, MetricTerm, Mixture, Ridge
from hgkt.closed_form.family import FEW_CLASSES, N_MEMBERS, MixtureFamily, single_setting
from hgkt.closed_form.grid import FoldScorer, score_grid
from hgkt.exceptions import DataError

RNG = np.random.default_rng(3)
COUNTS = [12, 4, 7, 9, 5, 20]
A, N = RNG.random((6, 5)), RNG.random((2, 5))
CODES = np.repeat(np.arange(6), COUNTS)
X = np.abs(4 * RNG.random((6, 8))[CODES] + RNG.normal(size=(len(CODES), 8)))
ROWS = np.abs(RNG.normal(size=(9, 8))) + 0.1
NAMES = [f"class {i}" for i in range(6)]
SEEN = dict(zip(NAMES, A, strict=True))
NEW = {"new 0": N[0], "new 1": N[1]}
MIXTURE = Mixture(
    metrics=(
        MetricTerm("sqrt+l2", 0.7, 2.0),
        MetricTerm("l2", 0.4, 0.5),
        MetricTerm("sqrt+l2", 0.2),
    ),
    kernels=(KernelTerm("rbf", 0.5, "l2", weight=2.0), KernelTerm("quadratic", 1.0, "sqrt+l2")),
    ridges=(Ridge(0.01, 3.0), Ridge(0.2, 1.0)),
    norm_power=1.2,
)  # fmt: skip


def fitted(mixture=MIXTURE, **parameters):
    given = {"norm_power": mixture.norm_power, "calibration": 0, **parameters}
    model = HGKTClassifier(mixture=mixture.to_dict(), **given)
    return model.fit(X, np.array(NAMES)[CODES], class_attributes=SEEN).add_classes(NEW)


def written_out(mixture):
    """Scores by the formulas: one kernel, averaged embeddings, added scores."""

    def kernel_term(term):
        rows = map_rows(np.concatenate([A, N]), term.attribute_map)
        if term.kernel == "quadratic":
            kernel = (1 + rows @ rows[:6].T) ** 2 / 4
        else:
            squared = ((rows[:, None] - rows[:6]) ** 2).sum(axis=2)
            median = np.median(squared[:6][np.triu_indices(6, 1)])
            kernel = np.exp(-term.kernel_scale * squared / median)
        return kernel / np.diag(kernel[:6]).mean()

    weights = np.array([t.weight for t in mixture.kernels])
    kernel = sum(
        w * kernel_term(t) for w, t in zip(weights / weights.sum(), mixture.kernels, strict=True)
    )
    shape = np.mean(COUNTS) / np.array(COUNTS)
    ridges = np.array(mixture.ridges)
    inverses = [np.linalg.inv(kernel[:6] + np.diag(ridge * shape)) for ridge in ridges[:, 0]]
    alphas = kernel @ np.average(inverses, axis=0, weights=ridges[:, 1])
    total = 0.0
    for term in mixture.metrics:
        phi, x = map_rows(X, term.feature_map), map_rows(ROWS, term.feature_map)
        means = np.stack([phi[c == CODES].mean(axis=0) for c in range(6)])
        residuals = phi - means[CODES]
        scatter = residuals.T @ residuals / len(X)
        s = term.shrinkage
        shrunk = (1 - s) * scatter + s * np.trace(scatter) / 8 * np.eye(8)
        inverse, center = np.linalg.inv(shrunk), means.mean(axis=0)
        z = alphas @ (means - center)
        lengths = np.sqrt(np.einsum("ij,jk,ik->i", z, inverse, z)) ** mixture.norm_power
        norms = np.sqrt(np.einsum("ij,jk,ik->i", x - center, inverse, x - center))
        total = total + term.weight * ((x - center) @ inverse @ z.T) / norms[:, None] / lengths
    return total


def test_mixture_matches_the_formulas_written_out():
    np.testing.assert_allclose(fitted().score_classes(ROWS), written_out(MIXTURE), atol=1e-9)


def test_scores_of_a_fold_are_those_of_a_fit():
    data = matrix_fold(X, CODES, A, N, ROWS)
    expected = fitted().score_classes(ROWS)
    (_, found), (_, again) = score_grid([MIXTURE, MIXTURE], data)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    np.testing.assert_allclose(again, expected, atol=1e-9)
    rough = FoldScorer(data, MIXTURE.metrics, MIXTURE).scores(MIXTURE)
    np.testing.assert_allclose(rough, expected, atol=2e-4)


def test_rough_scores_of_fewer_rows_than_features_are_those_of_a_fit():
    wide = np.random.default_rng(5).normal(size=(8, 90))  # 57 rows span a part of 90 features
    data = matrix_fold(np.abs(X @ wide), CODES, A, N, np.abs(ROWS @ wide))
    mixture = replace(MIXTURE, device="cpu")
    (_, expected), *_ = score_grid([mixture], data)
    rough = FoldScorer(data, mixture.metrics, mixture).scores(mixture)
    assert rough.dtype == np.float32
    np.testing.assert_allclose(rough, expected, atol=2e-4)


def test_mixture_of_one_is_the_single_setting():
    member = Mixture(
        metrics=(MetricTerm("l2", 0.3),),
        kernels=(KernelTerm("quadratic", 1.0, "l2"),),
        ridges=(Ridge(0.05),),
        norm_power=1.1,
    )
    single = HGKTClassifier(**single_setting(member), calibration=0)
    single.fit(X, np.array(NAMES)[CODES], class_attributes=SEEN).add_classes(NEW)
    assert np.array_equal(single.score_classes(ROWS), fitted(member).score_classes(ROWS))


def test_explanations_of_a_mixture_are_exact():
    model = fitted(calibration=0.3)
    vectors = model._transfer.source_vectors()
    for column, label in enumerate(model.classes_):
        sources = {s.label: s.weight for s in model.explain_class(label).sources}
        weights = np.array([sources.get(name, 0.0) for name in NAMES])
        np.testing.assert_allclose(weights @ vectors, model.class_embeddings_[column], atol=1e-9)
    for explanation in model.explain(ROWS):
        penalty = 0.3 if explanation.label in SEEN else 0.0
        total = sum(pull.weight for pull in explanation.pulls) - penalty
        assert total == pytest.approx(explanation.score, abs=1e-9)


def test_mixture_that_learns_in_batches_is_the_model_of_one_full_fit():
    rows = np.abs(RNG.normal(size=(7, 8))) + 1.0
    model, table = fitted().remove_classes(["new 0"]), {"new 0": N[0]}
    for part in (rows[:3], rows[3:]):
        model.partial_fit(part, ["new 0"] * len(part), class_attributes=table)
    y = np.concatenate([np.array(NAMES)[CODES], ["new 0"] * 7])
    whole = HGKTClassifier(mixture=MIXTURE.to_dict(), norm_power=1.2, calibration=0)
    whole.fit(np.concatenate([X, rows]), y, {**SEEN, **table}).add_classes({"new 1": N[1]})
    np.testing.assert_allclose(model.score_classes(ROWS), whole.score_classes(ROWS), atol=1e-8)


@pytest.mark.parametrize("relevance", [False, True])
def test_saved_mixture_scores_the_same_and_goes_on(tmp_path, relevance):
    terms = (*MIXTURE.kernels, KernelTerm("rbf", 2.0, "sqrt+l2", relevance=relevance))
    mixture = Mixture(MIXTURE.metrics, terms, MIXTURE.ridges, 1.2)
    model = fitted(mixture)
    loaded = load_model(model.save(tmp_path / "model"))
    assert np.array_equal(loaded.score_classes(ROWS), model.score_classes(ROWS))
    for either in (model, loaded):
        either.add_classes({"later": [0.1, 0.9, 0.2, 0.4, 0.3]})
        either.partial_fit(ROWS, ["later"] * len(ROWS))
    np.testing.assert_allclose(loaded.score_classes(ROWS), model.score_classes(ROWS), atol=1e-9)
    if relevance:
        np.testing.assert_allclose(loaded.attribute_relevance_, model.attribute_relevance_)
        assert model.attribute_relevance_.mean() == pytest.approx(1.0)


def test_mixture_survives_json():
    text = json.dumps(MIXTURE.to_dict())
    assert Mixture.from_dict(json.loads(text), norm_power=1.2) == MIXTURE


@pytest.mark.parametrize(("mixture", "match"), [
    ({"metrics": []}, "mixture must be a dict of three lists"),
    ("best", "mixture must be a dict of three lists"),
    ({**MIXTURE.to_dict(), "ridges": []}, "at least one of its ridges"),
    ({**MIXTURE.to_dict(), "kernels": [{"colour": 1}]}, "a term of the mixture cannot be read"),
    ({**MIXTURE.to_dict(), "metrics": [{"shrinkage": 2.0}]}, "shrinkage must be a number"),
    ({**MIXTURE.to_dict(), "ridges": [{"ridge": -1}]}, "ridge must be a number"),
    ({**MIXTURE.to_dict(), "kernels": [{"weight": 0}]}, "weight must be a number"),
])  # fmt: skip
def test_wrong_mixtures_are_refused_in_one_sentence(mixture, match):
    with pytest.raises(DataError, match=match):
        HGKTClassifier(mixture=mixture).fit(X, np.array(NAMES)[CODES], SEEN)


def test_distances_of_several_metrics_are_not_added():
    with pytest.raises(DataError, match="a mixture of several needs 'cosine'"):
        fitted(metric="euclidean")


# ---------------------------------------------------------------------- the family
def test_family_stands_in_every_metric_and_kernel():
    family = MixtureFamily.of(Mixture())
    screened = list(family.screening())
    assert {member.metrics[0] for member in screened} == set(family.metrics)
    three = family.metrics[:3]
    many, few = (list(family.members(three, *sizes)) for sizes in ((150, 312), (8, 20)))
    assert {member.kernels[0].relevance for member in many} == {False, True}
    assert not any(member.kernels[0].relevance for member in few)
    assert not any(m.kernels[0].relevance for m in family.members(three, 150, 1024))


def test_family_without_a_relation_has_its_ablated_form_only():
    family = MixtureFamily.of(Mixture(), intra=False, inter=False)
    assert {term.shrinkage for term in family.metrics} == {1.0}
    assert {member.kernels[0].kernel for member in family.members(family.metrics, 8, 4)} == {
        "linear"
    }


def test_family_weighs_attribute_blocks():
    family = MixtureFamily.of(Mixture(attribute_blocks=[2, 3]))
    weights = {
        member.kernels[0].block_weights for member in family.members(family.metrics[:1], 9, 5)
    }
    assert weights == {(0.5, 0.5), (0.25, 0.75), (0.75, 0.25), (0.0, 1.0), (1.0, 0.0)}


def test_terms_count_as_often_as_they_are_among_the_members():
    family = MixtureFamily.of(Mixture())
    members = list(family.members(family.metrics[:2], 30, 400))
    chosen = [members[0], members[0], members[-1]]
    mixture = family.mix(chosen)
    assert [term.weight for term in mixture.metrics] == [2.0, 1.0]
    assert [term.weight for term in mixture.kernels] == [2.0, 1.0]
    assert {(ridge, weight) for ridge, weight in mixture.ridges} == {(0.001, 2.0), (1.0, 1.0)}


def test_all_vote_where_classes_are_few():
    family = MixtureFamily.of(Mixture())
    members = list(family.members(family.metrics[:3], 8, 4))
    assert [len(part) for part in family.shortlists(members, FEW_CLASSES)] == list(N_MEMBERS)
    assert family.shortlists(members, FEW_CLASSES - 1) == [members]


def test_noise_of_a_mean_falls_with_its_instances():
    counts = np.array([1.0, 10.0, 19.0])
    noise = Mixture(ridges=(Ridge(0.1),)).noise(counts, 2.0 * np.eye(3))
    np.testing.assert_allclose(noise, [[2.0, 0.2, 2 / 19]], rtol=1e-12)
    uniform = Mixture(ridges=(Ridge(0.1), Ridge(0.3)), weighting="uniform")
    np.testing.assert_allclose(uniform.noise(counts, np.eye(3)), [[0.1] * 3, [0.3] * 3])
