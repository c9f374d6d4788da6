"""What the closed form refuses and takes by default, and its parts against oracles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from hgkt import HGKTClassifier
from hgkt._arrays import batches
from hgkt.closed_form import Ensemble, KernelSettings, Member
from hgkt.closed_form.kernels import ClassKernel, simplex_grid
from hgkt.closed_form.metric import WithinClassSpectrum
from hgkt.closed_form.relevance import attribute_relevance
from hgkt.closed_form.transfer import gather
from hgkt.exceptions import DataError
from hgkt.statistics import ClassStatistics

RNG = np.random.default_rng(1)
X, Y = RNG.random((12, 5)), np.repeat(["a", "b", "c"], 4)
TABLE = {"a": [1.0, 0.0, 0.2], "b": [0.0, 1.0, 0.3], "c": [0.5, 0.5, 0.9]}
WIDE = {name: [*row, 0.5, 0.1] for name, row in TABLE.items()}  # as many numbers as features
NAMES = (
    "feature_map, shrinkage, kernel, kernel_scale, attribute_map, relevance, block_weights, "
    "ridge, norm_power, observed, prior, weight"
)
NO_SPACE = (
    "prior and zero-shot members need class vectors in the space of the features; set shared_space"
)
ONE_METRIC = (
    "metric='euclidean' compares in one metric; members of several, or zero-shot, need 'cosine'"
)
ZERO_SHOT = {"kernel": "zero-shot"}


def fit(table: Any = TABLE, **options: Any) -> HGKTClassifier:
    return HGKTClassifier(**options).fit(X, Y, class_attributes=table)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"shrinkage": 1.5}, "shrinkage must be a number in [0, 1]; got 1.5"),
        ({"shrinkage": -0.5}, "shrinkage must be a number in [0, 1]; got -0.5"),
        ({"shrinkage": "auto"}, "shrinkage must be one of 'oas'; got 'auto'"),
        ({"feature_map": "log"}, "feature_map must be one of 'none', 'l2', 'sqrt+l2'; got 'log'"),
        ({"feature_map": 0.0}, "feature_map must be a number in (0, 1]; got 0.0"),
        (
            {"attribute_map": "log"},
            "attribute_map must be one of 'none', 'l2', 'sqrt+l2'; got 'log'",
        ),
        (
            {"kernel": "cubic"},
            "kernel must be one of 'rbf', 'quadratic', 'linear', 'knn'; got 'cubic'",
        ),
        ({"kernel_scale": 0.0}, "kernel_scale must be a number in (0, inf]; got 0.0"),
        ({"ridge": 0.0}, "ridge must be a number in (0, inf]; got 0.0"),
        ({"n_neighbors": 0}, "n_neighbors must be an integer in [1, inf]; got 0"),
        ({"n_neighbors": 1.5}, "n_neighbors must be an integer in [1, inf]; got 1.5"),
        ({"norm_power": -1.0}, "norm_power must be a number in [0, inf]; got -1.0"),
        ({"weighting": "sqrt"}, "weighting must be one of 'count', 'uniform'; got 'sqrt'"),
        ({"metric": "angle"}, "metric must be one of 'cosine', 'euclidean'; got 'angle'"),
        (
            {"attribute_blocks": [1, 1]},
            "attribute_blocks [1, 1] add up to 2; the attributes have 3 columns",
        ),
        (
            {"attribute_blocks": [1, 2], "block_weights": [1.0]},
            "block_weights must be 2 numbers, none negative and not all zero; got (1.0,)",
        ),
        (
            {"attribute_blocks": [1, 2], "block_weights": [1.0, -1.0]},
            "block_weights must be 2 numbers, none negative and not all zero; got (1.0, -1.0)",
        ),
        (
            {"attribute_blocks": [1, 2], "block_weights": [0.0, 0.0]},
            "block_weights must be 2 numbers, none negative and not all zero; got (0.0, 0.0)",
        ),
        ({"prior": -0.1}, "prior must be a number in [0, inf]; got -0.1"),
        ({"prior": 0.5}, NO_SPACE),
        ({"members": "best"}, "members must be a list of dicts, one per member; got 'best'"),
        ({"members": {}}, "members must be a list of dicts, one per member; got {}"),
        ({"members": [{}, 3]}, "members must be a list of dicts, one per member; got [{}, 3]"),
        ({"members": []}, "an ensemble needs at least one member besides zero-shot; got none"),
        (
            {"members": [ZERO_SHOT], "shared_space": True},
            "an ensemble needs at least one member besides zero-shot; got none",
        ),
        (
            {"members": [{"colour": 1}]},
            f"a member has no 'colour'; it may have: {NAMES}, or kernel='zero-shot' and a weight",
        ),
        (
            {"members": [{}, {"n_neighbors": 1}]},
            f"a member has no 'n_neighbors'; it may have: {NAMES}, "
            "or kernel='zero-shot' and a weight",
        ),
        ({"members": [{"shrinkage": 2.0}]}, "shrinkage must be a number in [0, 1]; got 2.0"),
        ({"members": [{}, {"ridge": -1}]}, "ridge must be a number in (0, inf]; got -1"),
        ({"members": [{"weight": 0}]}, "weight must be a number in (0, inf]; got 0"),
        ({"members": [{"weight": "2"}]}, "weight must be a number in (0, inf]; got '2'"),
        ({"members": [{"prior": -1.0}]}, "prior must be a number in [0, inf]; got -1.0"),
        ({"members": [{"norm_power": -1}]}, "norm_power must be a number in [0, inf]; got -1"),
        ({"members": [{"kernel_scale": 0}]}, "kernel_scale must be a number in (0, inf]; got 0"),
        (
            {"members": [{"kernel": "cubic"}]},
            "kernel must be one of 'rbf', 'quadratic', 'linear', 'knn'; got 'cubic'",
        ),
        (
            {"members": [{"feature_map": "log"}]},
            "feature_map must be one of 'none', 'l2', 'sqrt+l2'; got 'log'",
        ),
        (
            {"members": [{"block_weights": [1.0]}], "attribute_blocks": [1, 2]},
            "block_weights must be 2 numbers, none negative and not all zero; got (1.0,)",
        ),
        (
            {"members": [{}, ZERO_SHOT | {"weight": 0.0}], "shared_space": True},
            "weight must be a number in (0, inf]; got 0.0",
        ),
        ({"members": [{"prior": 0.3}]}, NO_SPACE),
        ({"members": [{}, ZERO_SHOT]}, NO_SPACE),
        ({"members": [{}, {"shrinkage": 0.1}], "metric": "euclidean"}, ONE_METRIC),
        (
            {"members": [{}, ZERO_SHOT], "metric": "euclidean", "shared_space": True},
            ONE_METRIC,
        ),
        (
            {"shared_space": True},
            "shared_space: class vectors have 3 numbers where features have 5; "
            "of one space both have as many",
        ),
        (
            {"members": [{}, ZERO_SHOT], "shared_space": 1, "attribute_blocks": [1, 2]},
            "shared_space: class vectors have 2 numbers where features have 5; "
            "of one space both have as many",
        ),
        (
            {"shared_space": 2, "attribute_blocks": [1, 2]},
            "shared_space must be an integer in [0, 1]; got 2",
        ),
        ({"shared_space": 1}, "shared_space must be an integer in [0, 0]; got 1"),
        ({"shared_space": -1}, "shared_space must be an integer in [0, 0]; got -1"),
        ({"shared_space": "text"}, "shared_space must be an integer in [0, 0]; got 'text'"),
    ],
)
def test_refusals_are_whole_sentences(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DataError) as refused:
        fit(**options)
    assert str(refused.value) == sentence


@pytest.mark.parametrize("unknown", ["wieght", "ridge"])
def test_zero_shot_has_a_weight_and_nothing_else(unknown: str) -> None:
    with pytest.raises(DataError, match=f"'{unknown}'"):
        fit(WIDE, members=[{}, ZERO_SHOT | {unknown: 2.0}], shared_space=True)


@pytest.mark.parametrize("shared_space", [True, 0])
def test_a_new_class_of_a_shared_space_has_as_many_numbers(shared_space: Any) -> None:
    model = fit(WIDE, shared_space=shared_space, prior=0.5)
    with pytest.raises(DataError, match="5"):
        model.add_classes({"d": [1.0, 2.0]})
    assert model.classes_.tolist() == ["a", "b", "c"]


def test_attributes_may_not_come_after_a_fit_without_them() -> None:
    model = HGKTClassifier().fit(X, Y)
    with pytest.raises(DataError) as refused:
        model.partial_fit(X, Y, class_attributes=TABLE)
    assert str(refused.value) == (
        "this model was fitted without class_attributes; it cannot take them later"
    )
    with pytest.raises(AttributeError) as missing:
        _ = fit().attribute_relevance_
    assert str(missing.value) == "no kernel of this model weighs attributes by their relevance"
    with pytest.raises(DataError) as unable:
        ClassKernel(KernelSettings(relevance=True)).fit(np.eye(3))
    assert str(unable.value) == "a kernel with relevance was fitted without a way to learn it"


def test_settings_are_taken_at_the_very_edge() -> None:
    for options in (
        {"shrinkage": 0.0},
        {"shrinkage": 1.0},
        {"norm_power": 0.0},
        {"n_neighbors": 1, "kernel": "knn"},
        {"feature_map": 1.0},
        {"attribute_blocks": [1, 2], "block_weights": [0.0, 1.0]},
        {"members": [{"weight": 1e-9}]},
        {"members": ({}, {"norm_power": 0.0})},
    ):
        assert np.isfinite(fit(**options).score_classes(X)).all()


def test_shared_spaces_are_taken_at_the_very_edge() -> None:
    for options in (
        {"shared_space": True, "prior": 0.0},
        {"shared_space": True, "prior": 2.0},
        {"shared_space": 0},  # the only block, without widths
        {"shared_space": 0, "attribute_blocks": [5], "members": [{}, ZERO_SHOT]},
        {"shared_space": True, "metric": "euclidean", "prior": 0.5},
    ):
        assert np.isfinite(fit(WIDE, **options).score_classes(X)).all()


def test_zero_shot_weighs_one_by_default_and_several_add_up() -> None:
    found = [
        fit(WIDE, members=[{}, *rows], shared_space=True).score_classes(X)
        for rows in (
            [ZERO_SHOT],
            [ZERO_SHOT | {"weight": 1.0}],
            [ZERO_SHOT | {"weight": 0.25}, ZERO_SHOT | {"weight": 0.75}],
        )
    ]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_defaults_are_one_member() -> None:
    assert HGKTClassifier()._settings() == Ensemble()
    assert Ensemble() == Ensemble(
        members=(
            Member(
                feature_map="sqrt+l2",
                shrinkage=0.5,
                kernel="rbf",
                kernel_scale=1.0,
                attribute_map="sqrt+l2",
                relevance=False,
                block_weights=None,
                ridge=0.03,
                norm_power=1.0,
                observed=False,
                prior=0.0,
                weight=1.0,
            ),
        ),
        zero_shot=0.0,
        metric="cosine",
        weighting="count",
        n_neighbors=2,
        attribute_blocks=None,
        shared_space=False,
        device="auto",
    )
    assert KernelSettings() == KernelSettings("rbf", 1.0, "l2", False, None)
    kernel = ClassKernel().fit(np.eye(3))
    assert (kernel.settings, kernel.blocks, kernel.n_neighbors) == (KernelSettings(), None, 2)


def test_descriptions_are_a_first_guess_in_a_shared_space_unless_told() -> None:
    for shared_space, prior in ((False, 0.0), (True, 0.3), (0, 0.3)):
        (member,) = HGKTClassifier(shared_space=shared_space)._settings().members
        assert member.prior == prior
    (member,) = HGKTClassifier(shared_space=True, prior=0.0)._settings().members
    assert member.prior == 0.0


def test_members_take_the_place_of_the_parameters_of_one() -> None:
    given = {"kernel": "linear", "ridge": 1.0, "prior": 0.0, "shrinkage": 0.1}
    assert HGKTClassifier(**given, members=[{}])._settings() == Ensemble()
    assert HGKTClassifier(members=[given])._settings() == HGKTClassifier(**given)._settings()


# ------------------------------------------------------------------ parts with an oracle
def test_relevance_is_thirty_steps_of_adam_on_the_marginal_likelihood() -> None:
    attributes, means = RNG.random((25, 4)), RNG.normal(size=(25, 3))
    means[:, 0] += 3.0 * np.sin(5.0 * attributes[:, 1])
    gram, noise = means @ means.T, RNG.uniform(0.02, 0.1, 25)
    rows, inner = torch.tensor(attributes), torch.tensor(gram)
    squared = ((rows[:, None] - rows[None]) ** 2).sum(dim=2)
    scale = np.median(squared.numpy()[np.triu_indices(25, 1)])
    logs = torch.zeros(4, dtype=torch.float64, requires_grad=True)
    adam = torch.optim.Adam([logs], lr=0.1)
    for _ in range(30):
        adam.zero_grad()
        differences = (rows[:, None] - rows[None]) ** 2 * torch.exp(logs) / scale
        covariance = torch.exp(-differences.sum(dim=2)) + torch.diag(torch.tensor(noise))
        trace = torch.trace(torch.linalg.solve(covariance, inner))
        loss = 0.5 * torch.logdet(covariance) + 12.5 * torch.log(trace)
        (scale * loss).backward()
        adam.step()
    expected = torch.exp(logs).detach().numpy()
    found = attribute_relevance(attributes, gram, noise)
    np.testing.assert_allclose(found, expected / expected.mean(), rtol=1e-6)


@pytest.mark.parametrize("feature_map", ["none", "l2", "sqrt+l2", 0.3])
def test_statistics_are_the_same_however_they_are_gathered(
    feature_map: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, codes = RNG.normal(size=(23, 4)), RNG.integers(0, 4, 23)
    rows[5] = 0.0  # a row without direction
    whole = gather(rows, codes, 5, feature_map)
    monkeypatch.setattr(
        "hgkt.closed_form.transfer.batches", lambda n_rows, size=7: batches(n_rows, 7)
    )
    for parts in (
        gather(rows, codes, 5, feature_map),
        gather(rows, codes, 5, feature_map, "cpu"),
        gather(rows.astype(np.float32), codes.astype(np.int32), 5, feature_map, "cpu"),
    ):
        np.testing.assert_array_equal(parts.counts, whole.counts)
        np.testing.assert_allclose(parts.sums, whole.sums, atol=1e-5)
        np.testing.assert_allclose(parts.second_moment, whole.second_moment, atol=1e-5)
    assert whole.counts.tolist() == np.bincount(codes, minlength=5).tolist()


def test_spectrum_of_scatter_is_clipped_floored_and_shared() -> None:
    statistics = ClassStatistics(3, 5).update(X, np.repeat(np.arange(3), 4))
    spectrum = WithinClassSpectrum.of(statistics)
    there = WithinClassSpectrum.of(statistics, "cpu")
    np.testing.assert_allclose(spectrum.eigenvalues, there.eigenvalues, atol=1e-12)
    np.testing.assert_allclose(np.abs(spectrum.basis.T @ there.basis), np.eye(5), atol=1e-6)
    assert spectrum.n_instances == 12
    flat = WithinClassSpectrum(np.zeros(3), np.array([0.0, 1.0, 2.0]), np.eye(3), 9)
    np.testing.assert_allclose(flat.shrunk(0.0), [2e-10, 1.0, 2.0])
    np.testing.assert_allclose(flat.shrunk(0.25), [0.25, 1.0, 1.75])
    np.testing.assert_array_equal(
        WithinClassSpectrum(np.zeros(2), np.zeros(2), np.eye(2), 2).shrunk(0.3), [1.0, 1.0]
    )
    # All directions alike: nothing tells the scatter from a multiple of the identity.
    same = WithinClassSpectrum(np.zeros(3), np.full(3, 2.0), np.eye(3), 9)
    assert same.oracle_shrinkage() == 1.0


def test_block_weights_are_listed_from_the_equal_most() -> None:
    assert simplex_grid(3, 1) == [(0.0, 0.0, 1.0), (0.0, 1.0, 0.0), (1.0, 0.0, 0.0)]
    grid = simplex_grid(2, 4)
    assert grid[0] == (0.5, 0.5)
    assert set(grid) == {(0.0, 1.0), (0.25, 0.75), (0.5, 0.5), (0.75, 0.25), (1.0, 0.0)}
    assert all(sum(row) == 1.0 for row in simplex_grid(3, 4))
