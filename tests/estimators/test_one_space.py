"""Class vectors in the space of the features: a description is a first guess of a mean."""

from __future__ import annotations

from copy import copy

import numpy as np
import pytest
from sklearn.base import clone
from tests.evidence import attribute_evidence
from tests.folds import make_fold

from hgkt import ClassFoldSearch, GatheredStatistics, HGKTClassifier, gather, load_model
from hgkt.exceptions import DataError

WIDTH = 24
MEMBERS = [
    {"feature_map": "l2", "prior": 0.6, "weight": 2.0, "norm_power": 1.2},
    {"feature_map": "l2", "prior": 1.0, "kernel": "linear", "observed": True},
    {"feature_map": "none", "shrinkage": 0.9, "kernel_scale": 0.5, "relevance": True},
    {"kernel": "zero-shot", "weight": 0.5},
]
SETTINGS = {
    "prior": {"prior": 0.6, "feature_map": "l2"},
    "prior, observed": {"prior": 1.0, "observed": True, "norm_power": 1.3},
    "members": {"members": MEMBERS},
}


@pytest.fixture(scope="module")
def space():
    """Sixteen seen and six new classes far from each other; texts are shifted, noisy means."""
    rng = np.random.default_rng(7)
    means = rng.normal(size=(22, WIDTH))
    texts = means + 0.8 * rng.normal(size=means.shape) + rng.normal(size=WIDTH)
    codes = np.repeat(np.arange(22), 20)
    X = means[codes] + 1.0 + 0.8 * rng.normal(size=(len(codes), WIDTH))
    names = np.array([f"class {letter}" for letter in "abcdefghijklmnopqrstuv"])
    table, seen = dict(zip(names.tolist(), texts, strict=True)), codes < 16
    return {
        "X": X[seen],
        "y": names[codes[seen]],
        "seen": {name: table[name] for name in names[:16].tolist()},
        "new": {name: table[name] for name in names[16:].tolist()},
        "X_new": X[~seen],
        "y_new": names[codes[~seen]],
    }


@pytest.fixture(params=SETTINGS)
def params(request):
    return SETTINGS[request.param]


def fitted(space, **params):
    params = {"shared_space": True, "calibration": 0.1, "device": "cpu"} | params
    return HGKTClassifier(**params).fit(space["X"], space["y"], space["seen"])


def accuracy(model, space):
    """Of new classes, among them alone."""
    added = copy(model).add_classes(space["new"])
    return np.mean(added.predict(space["X_new"], among="unseen") == space["y_new"])


def in_blocks(space, width=5):
    """The same data where attributes, which say nothing, come before the descriptions."""
    rng = np.random.default_rng(0)
    return space | {
        part: {name: np.concatenate([rng.random(width), row]) for name, row in space[part].items()}
        for part in ("seen", "new")
    }


# ---------------------------------------------------------------------- what it brings
def test_the_description_tells_new_classes_apart_where_no_kernel_can(space):
    plain = fitted(space, shared_space=False)
    for params in SETTINGS.values():
        assert accuracy(fitted(space, **params), space) > accuracy(plain, space) + 0.1


def test_a_plain_fit_takes_the_description_as_a_guess(space):
    """Without any other parameter."""
    plain = fitted(space)
    assert plain.explain_class("class a").description > 0
    assert accuracy(plain, space) > accuracy(fitted(space, shared_space=False), space) + 0.1
    without = fitted(space, prior=0.0).add_classes(space["new"])
    apart = fitted(space, shared_space=False).add_classes(space["new"])
    X = space["X_new"]
    np.testing.assert_allclose(without.score_classes(X), apart.score_classes(X), atol=1e-12)


def test_a_selection_uses_the_space_and_beats_one_that_does_not(space):
    def searched(**params):
        search = ClassFoldSearch(HGKTClassifier(device="cpu", **params), n_folds=2)
        return search.fit(space["X"], space["y"], space["seen"])

    shared, apart = searched(shared_space=True), searched()
    assert accuracy(shared.best_estimator_, space) > accuracy(apart.best_estimator_, space) + 0.1
    assert shared.best_score_ > apart.best_score_
    chosen = shared.best_params_["members"]
    assert any(m.get("prior", 0) > 0 or m["kernel"] == "zero-shot" for m in chosen)
    assert sum(member["weight"] for member in chosen) == pytest.approx(1.0)
    assert not any(m["prior"] for m in apart.best_params_["members"])
    ensembles = [r for r in shared.cv_results_ if r.stage == 1]
    kinds = [{m["kernel"] for m in r.params["members"]} for r in ensembles]
    assert ["zero-shot" in kernels for kernels in kinds] == [False] + [True] * 5
    assert shared.best_estimator_.shared_space is True
    priors = {result.params["prior"] for result in shared.cv_results_ if result.stage == 0}
    assert 0.0 in priors
    assert max(priors) > 0
    assert shared.best_params_["metric"] == "cosine"


def test_a_selection_may_compare_by_distances(space):
    """Where `metric` says so; zero-shot, a cosine, has no part in it then."""
    model = HGKTClassifier(shared_space=True, metric="euclidean", device="cpu")
    search = ClassFoldSearch(model, n_folds=1).fit(space["X"], space["y"], space["seen"])
    assert search.best_params_["metric"] == "euclidean"
    assert "zero-shot" not in {member["kernel"] for member in search.best_params_["members"]}
    plain = fitted(space, shared_space=False, metric="euclidean")
    assert accuracy(search.best_estimator_, space) > accuracy(plain, space) + 0.1


def test_a_selection_refuses_descriptions_of_another_width(space):
    seen = {name: row[:-1] for name, row in space["seen"].items()}
    search = ClassFoldSearch(HGKTClassifier(shared_space=True, device="cpu"), n_folds=1)
    with pytest.raises(DataError, match="have 23 numbers where features have 24"):
        search.fit(space["X"], space["y"], seen)


def test_a_search_scores_as_the_fits_of_its_settings(space):
    grid = [
        {"prior": prior, "observed": observed, "metric": metric, "feature_map": name}
        for prior in (0.0, 0.6, 1.0)
        for observed in (False, True)
        for metric in ("cosine", "euclidean")
        for name in ("l2", "none")
    ]
    grid += [{"members": MEMBERS}, {"members": MEMBERS[1:]}, {"members": MEMBERS[1:3]}]
    model = HGKTClassifier(shared_space=True, calibration=0.0, device="cpu")
    args = (space["X"], space["y"], space["seen"], space["new"], space["X_new"])
    scored = dict(model.score_grid(grid, make_fold(*args)))
    assert sorted(scored) == list(range(len(grid)))
    for index, scores in scored.items():
        alone = clone(model).set_params(**grid[index]).fit(*args[:3]).add_classes(args[3])
        np.testing.assert_allclose(scores, alone.score_classes(args[4]), atol=1e-8)


# ---------------------------------------------------------------------- blocks
def test_descriptions_may_be_one_block_of_the_attributes(space):
    data = in_blocks(space)
    blocks = {"attribute_blocks": [5, WIDTH], "block_weights": [0.0, 1.0], "shared_space": 1}
    found = fitted(data, **blocks, prior=0.6, feature_map="l2").add_classes(data["new"])
    expected = fitted(space, prior=0.6, feature_map="l2").add_classes(space["new"])
    np.testing.assert_allclose(
        found.score_classes(space["X_new"]), expected.score_classes(space["X_new"]), atol=1e-9
    )
    both = fitted(data, attribute_blocks=[5, WIDTH], shared_space=1, members=MEMBERS)
    plain = fitted(data, attribute_blocks=[5, WIDTH], shared_space=False)
    assert accuracy(both, data) > accuracy(plain, data) + 0.1


def test_the_first_block_may_be_the_description(space):
    data = space | {
        part: {name: np.append(row, 0.5) for name, row in space[part].items()}
        for part in ("seen", "new")
    }
    model = fitted(data, attribute_blocks=[WIDTH, 1], shared_space=0, prior=0.6)
    plain = fitted(data, attribute_blocks=[WIDTH, 1], shared_space=False)
    assert accuracy(model, data) > accuracy(plain, data) + 0.1


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"prior": 0.5, "shared_space": False}, "need class vectors in the space of the features"),
        ({"members": MEMBERS, "shared_space": False}, "set shared_space"),
        ({"members": MEMBERS, "metric": "euclidean"}, "members of several, or zero-shot"),
        ({"members": MEMBERS[3:]}, "at least one member besides zero-shot"),
        ({"members": [{"kernel": "zero-shot", "weight": 0}]}, "weight must be a number"),
        ({"members": [{}, {"kernel": "zero-shot", "weigth": 2}]}, "has no 'weigth'"),
        ({"members": [{"size": 3}]}, "a member has no 'size'; it may have: feature_map,"),
        ({"members": {"kernel": "rbf"}}, "members must be a list of dicts"),
        ({"prior": -1.0}, "prior must be a number"),
        ({"shared_space": 1}, "shared_space must be"),
        ({"shared_space": 2, "attribute_blocks": [5, 19]}, "shared_space must be"),
        ({"shared_space": 1, "attribute_blocks": [5, 19]}, "19 numbers where features have 24"),
    ],
)
def test_what_shares_no_space_is_refused(space, params, words):
    with pytest.raises(DataError, match=words):
        fitted(space, **params)


# ---------------------------------------------------------------------- growing
def places(model, rows, text):
    """Return, for each member, the embedding of a class, and where its mean and text lie."""
    found, transfer = [], model._transfer
    vectors = transfer.vectors(text[None])
    for member, (z,) in zip(transfer.settings.members, vectors, strict=True):
        view = transfer.spaces[member.feature_map]
        mean = view.into(view.mapped(rows), view.center, member.shrinkage).mean(axis=0)
        (own,) = view.into(view.mapped(text[None]), view.description_center, member.shrinkage)
        found.append((z, mean, own))
    return found


@pytest.mark.parametrize("name", SETTINGS)
def test_a_class_that_grows_moves_from_its_description_to_its_mean(space, name):
    model = fitted(space, **SETTINGS[name]).add_classes(space["new"])
    own = space["X_new"][space["y_new"] == "class q"]
    gaps, told, shares = [], [], []
    for part in (None, own[:1], own[1:5], own[5:]):
        if part is not None:
            model.grow({"class q": model.example_sums(part)})
        found = places(model, own, space["new"]["class q"])
        gaps.append([np.linalg.norm(z - mean) / np.linalg.norm(mean) for z, mean, _ in found])
        told.append([np.linalg.norm(z - text) / np.linalg.norm(mean) for z, mean, text in found])
        shares.append(model.learned_shares()[model.column_of("class q")])
    assert told[0][0] < gaps[0][0]  # it begins nearer to its description
    assert told[-1][0] > gaps[-1][0]
    assert (np.diff(gaps, axis=0) < 0).all()
    assert max(gaps[-1]) < 0.2
    assert shares[0] == 0
    assert (np.diff(shares) > 0).all()
    assert shares[-1] <= 1
    whole = fitted(space, **SETTINGS[name]).add_classes(space["new"])
    whole.partial_fit(own, ["class q"] * len(own))
    np.testing.assert_allclose(
        model.score_classes(space["X"]), whole.score_classes(space["X"]), atol=1e-9
    )


def test_a_grown_class_is_saved_and_removed_as_if_it_had_never_been(space, params, tmp_path):
    model = fitted(space, **params).add_classes(space["new"])
    before, names = model.score_classes(space["X_new"]), model.classes_.tolist()
    own = space["X_new"][space["y_new"] == "class q"]
    model.grow({"class q": model.example_sums(own)})
    loaded = load_model(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(
        loaded.score_classes(space["X_new"]), model.score_classes(space["X_new"])
    )
    loaded.remove_classes(["class q"]).add_classes({"class q": space["new"]["class q"]})
    columns = [loaded.column_of(name) for name in names]
    np.testing.assert_allclose(loaded.score_classes(space["X_new"])[:, columns], before, atol=1e-8)


def test_batches_in_any_order_equal_one_fit(space, params):
    settings = params | {"shared_space": True, "calibration": 0.0}
    whole = HGKTClassifier(**settings).fit(space["X"], space["y"], space["seen"])
    order = np.random.default_rng(5).permutation(len(space["X"]))
    model = HGKTClassifier(**settings)
    for rows in np.array_split(order, 3):
        names = np.unique(space["y"][rows]).tolist()
        table = {name: space["seen"][name] for name in names}
        model.partial_fit(space["X"][rows], space["y"][rows], class_attributes=table)
    np.testing.assert_allclose(
        model.score_classes(space["X_new"]), whole.score_classes(space["X_new"]), atol=1e-8
    )


# ---------------------------------------------------------------------- sums, saving, devices
def test_fit_statistics_equals_fit(space, params, tmp_path):
    model = HGKTClassifier(shared_space=True, calibration=0.1, **params)
    batches = [(space["X"][k : k + 71], space["y"][k : k + 71]) for k in range(0, 320, 71)]
    sums = gather(batches, **model.gather_options())
    sums = GatheredStatistics.load(sums.save(tmp_path / "sums.safetensors"))
    both = space["seen"] | space["new"]  # classes without rows are added
    found = clone(model).fit_statistics(sums, class_attributes=both)
    expected = model.fit(space["X"], space["y"], class_attributes=both)
    assert found.unseen_classes_.tolist() == list(space["new"])
    np.testing.assert_allclose(
        found.score_classes(space["X_new"]), expected.score_classes(space["X_new"]), atol=1e-9
    )


def test_selection_from_statistics_chooses_as_that_from_rows(space):
    model = HGKTClassifier(shared_space=True, device="cpu")
    batches = [(space["X"][k : k + 71], space["y"][k : k + 71]) for k in range(0, 320, 71)]
    sums = gather(batches, classes=space["seen"], **model.gather_options(select=True))
    found = ClassFoldSearch(model, n_folds=1).fit_statistics(sums, space["seen"])
    expected = ClassFoldSearch(model, n_folds=1)
    expected.fit(space["X"], space["y"], space["seen"], folds=sums.folds)
    assert found.best_score_ == pytest.approx(expected.best_score_)
    chosen, members = (s.best_params_["members"] for s in (found, expected))
    for own, other in zip(chosen, members, strict=True):
        assert own == {**other, "weight": pytest.approx(other["weight"], rel=1e-4)}


def test_a_saved_model_scores_adds_and_explains_the_same(space, params, tmp_path):
    model = fitted(space, **params)
    loaded = load_model(model.save(tmp_path / "model")).add_classes(space["new"])
    model.add_classes(space["new"])
    np.testing.assert_array_equal(
        loaded.score_classes(space["X_new"]), model.score_classes(space["X_new"])
    )
    ours, theirs = (m.explain(space["X_new"][:3])[0] for m in (model, loaded))
    assert theirs.description == pytest.approx(ours.description, abs=1e-9)
    assert loaded.explain_class("class q").description == pytest.approx(
        model.explain_class("class q").description
    )


def test_float32_and_float64_agree(space, params):
    wide = fitted(space, **params).add_classes(space["new"])
    narrow = fitted(space | {"X": space["X"].astype(np.float32)}, **params)
    narrow.add_classes(space["new"])
    found = narrow.score_classes(space["X_new"].astype(np.float32))
    assert narrow.class_embeddings_.dtype == np.float32
    np.testing.assert_allclose(found, wide.score_classes(space["X_new"]), atol=1e-4)


def test_few_rows_of_many_features_share_a_space_too(monkeypatch):
    """Elsewhere they would be brought into the span of the rows; descriptions lie outside."""
    monkeypatch.setattr("hgkt.statistics.classes._LEAST_FEATURES", 400)
    rng = np.random.default_rng(0)
    means = rng.normal(size=(6, 420)).astype(np.float32)
    texts = dict(enumerate(means + rng.normal(size=means.shape).astype(np.float32)))
    codes = np.repeat(np.arange(6), 5)
    X = means[codes] + 0.5 * rng.normal(size=(30, 420)).astype(np.float32)
    model = HGKTClassifier(
        shared_space=True, prior=1.0, feature_map="l2", calibration=0.0, device="cpu"
    )
    model.fit(X[:20], codes[:20], {name: texts[name] for name in range(4)})
    model.add_classes({name: texts[name] for name in (4, 5)})
    np.testing.assert_array_equal(model.predict(X[20:], among="unseen"), codes[20:])


# ---------------------------------------------------------------------- explaining
def test_pulls_and_the_description_sum_to_the_score(space, params):
    model = fitted(space, **params).add_classes(space["new"])
    own = space["X_new"][space["y_new"] == "class q"]
    model.grow({"class q": model.example_sums(own)})
    rows = np.concatenate([space["X"][::20], space["X_new"][::4]])
    explanations = model.explain(rows)
    learned = model.learned_shares()
    kinds = set()
    for explanation in explanations:
        column = model.column_of(explanation.label)
        kinds.add((explanation.label in space["seen"], explanation.label == "class q"))
        paid = 0.1 if explanation.label in space["seen"] else 0.1 * learned[column]
        total = sum(pull.weight for pull in explanation.pulls) + explanation.description
        assert total - paid == pytest.approx(explanation.score, abs=1e-9)
    assert kinds == {(True, False), (False, False), (False, True)}


def test_the_description_is_a_part_of_what_a_class_is_made_of(space):
    model = fitted(space, prior=0.6).add_classes(space["new"])
    assert model.explain_class("class q").description == pytest.approx(0.6)
    assert model.explain_class("class q").to_dict()["description"] == pytest.approx(0.6)
    stays = fitted(space, prior=0.6, observed=True).add_classes(space["new"])
    assert stays.explain_class("class a").description == 0.0  # it is its observed mean
    assert [s.label for s in stays.explain_class("class a").sources] == ["class a"]
    assert stays.explain_class("class q").description == pytest.approx(0.6)
    assert fitted(space, shared_space=False).explain_class("class a").description == 0.0
    several = fitted(space, members=MEMBERS).add_classes(space["new"])
    # (2·0.6 + 1·1.0 + 1·0 + 0.5·1) / (2 + 1 + 1 + 0.5); a learned one stays in the second.
    assert several.explain_class("class q").description == pytest.approx(2.7 / 4.5)
    assert several.explain_class("class a").description == pytest.approx(1.7 / 4.5)


def test_sources_and_description_make_the_embedding(space):
    model = fitted(space, prior=0.6, feature_map="l2").add_classes(space["new"])
    transfer = model._transfer
    (member,) = transfer.settings.members
    residuals = dict(zip(model.seen_classes_, transfer.residuals(member), strict=True))
    view = transfer.spaces["l2"]
    for label, text in (space["seen"] | space["new"]).items():
        explanation = model.explain_class(label)
        told = view.into(view.mapped(text[None]), view.description_center, member.shrinkage)[0]
        total = explanation.description * told
        total += sum(source.weight * residuals[source.label] for source in explanation.sources)
        own = total / np.linalg.norm(total)
        np.testing.assert_allclose(own, model.class_embeddings_[model.column_of(label)], atol=1e-8)


def test_an_attribute_speaks_for_a_class_by_its_description_too(space):
    model = fitted(space, **SETTINGS["prior"]).add_classes(space["new"])
    x = space["X_new"][0]
    for evidence in attribute_evidence(model, x, "class q")[:3]:
        altered = space["new"]["class q"].copy()
        altered[evidence.position] = np.mean(list(space["seen"].values()), 0)[evidence.position]
        other = fitted(space, **SETTINGS["prior"]).add_classes({"other": altered})
        pair = [
            m.score_classes(x[None])[0, m.column_of(n)]
            for m, n in ((model, "class q"), (other, "other"))
        ]
        assert evidence.weight == pytest.approx(pair[0] - pair[1], abs=1e-9)


# ---------------------------------------------------------------------- before a class is added
def test_a_class_is_checked_before_it_is_added(space, params):
    model = fitted(space, **params, calibration="auto")
    before = model.score_classes(space["X_new"])
    for name, text in space["new"].items():
        check = model.check_class(text, name)
        assert 0 <= check.accuracy <= 1
        low, high = check.accuracy_range
        assert low <= check.accuracy <= high
        assert check.variance > 0
        assert check.accuracy + sum(rival.share for rival in check.rivals) <= 1 + 1e-9
    np.testing.assert_array_equal(model.score_classes(space["X_new"]), before)
    near = space["seen"]["class c"] + 0.01
    assert model.check_class(near, "twin").losses[0].label == "class c"
    model.add_classes(space["new"])
    again = model.check_class(space["new"]["class q"] + 0.01, "twin")
    assert again.rivals[0].label == "class q"
