"""Maps of features and attributes, which every baseline has alike."""

import json

import numpy as np
import pytest
from tests.folds import make_fold

from hgkt._arrays import map_rows
from hgkt.baselines import BASELINES
from hgkt.data import make_synthetic
from hgkt.estimators import load_model
from hgkt.estimators.model_folder import config_digest
from hgkt.exceptions import DataError, ModelFolderError

FAST = {"n_hidden": 16, "n_steps": 20, "n_epochs": 2, "random_state": 0, "device": "cpu"}
FAST |= {"hidden_sizes": (16, 16, 16, 16), "n_latent": 8, "classifier_epochs": 2}
FAST |= {"n_seen_samples": 20, "n_unseen_samples": 20}


def build(name, **params):
    model = BASELINES[name].load()()
    known = model.get_params()
    return model.set_params(**{k: v for k, v in {**FAST, **params}.items() if k in known})


@pytest.fixture(scope="module")
def data():
    # As many attributes as features, which methods for one space ask for.
    return make_synthetic(n_features=32, n_attributes=32, n_seen=12, n_unseen=3, noise=0.3)


def parts(data):
    X, y = data.rows("train")
    seen, unseen = data.attributes_of(data.seen_classes), data.attributes_of(data.unseen_classes)
    return X.astype(np.float64), y, seen, unseen, data.rows("test_unseen")[0].astype(np.float64)


def mapped(table, kind):
    return {name: map_rows(np.asarray([row]), kind)[0] for name, row in table.items()}


@pytest.mark.parametrize("name", list(BASELINES))
def test_a_map_is_the_method_on_mapped_rows(data, name):
    X, y, seen, unseen, X_new = parts(data)
    maps = {"feature_map": "sqrt+l2", "attribute_map": "sqrt+l2"}
    model = build(name, **maps).fit(X, y, seen).add_classes(unseen)
    other = build(name, feature_map="none", attribute_map="none")
    other.fit(map_rows(X, "sqrt+l2"), y, mapped(seen, "sqrt+l2"))
    other.add_classes(mapped(unseen, "sqrt+l2"))
    expected = other.score_classes(map_rows(X_new, "sqrt+l2"))
    np.testing.assert_allclose(model.score_classes(X_new), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", list(BASELINES))
def test_a_grid_over_maps_equals_separate_fits(data, name):
    X, y, seen, unseen, X_new = parts(data)
    grid = [
        {"feature_map": f, "attribute_map": a} for a in ("l2", "sqrt+l2") for f in ("sqrt+l2", "l2")
    ]
    found = dict(build(name).score_grid(grid, make_fold(X, y, seen, unseen, X_new)))
    assert sorted(found) == list(range(len(grid)))
    for index, maps in enumerate(grid):
        model = build(name, **maps).fit(X, y, seen).add_classes(unseen)
        np.testing.assert_allclose(found[index], model.score_classes(X_new), rtol=1e-6, atol=1e-8)


CENTERING = [name for name in BASELINES if "centering" in build(name).get_params()]


def centered(X, table, new, centering):
    """Return mapped rows, attributes and new attributes, with means of the first two taken off."""
    X, means = map_rows(X, "sqrt+l2"), np.mean(list(mapped(table, "l2").values()), axis=0)
    offset = X.mean(axis=0) if centering in ("features", "both") else 0.0

    def attributes(rows):
        rows = mapped(rows, "l2")
        if centering in ("attributes", "both"):
            rows = {name: (row - means) / np.linalg.norm(row - means) for name, row in rows.items()}
        return rows

    return offset, X - offset, attributes(table), attributes(new)


@pytest.mark.parametrize("centering", ["features", "attributes", "both"])
@pytest.mark.parametrize("name", CENTERING)
def test_centering_is_the_method_on_centred_rows(data, name, centering, tmp_path):
    X, y, seen, unseen, X_new = parts(data)
    maps = {"feature_map": "sqrt+l2", "attribute_map": "l2", "scaling": "none"}
    model = build(name, **maps, centering=centering).fit(X, y, seen).add_classes(unseen)
    offset, rows, classes, added = centered(X, seen, unseen, centering)
    other = build(name, feature_map="none", attribute_map="none", scaling="none")
    other.fit(rows, y, classes).add_classes(added)
    expected = other.score_classes(map_rows(X_new, "sqrt+l2") - offset)
    scores = model.score_classes(X_new)
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5)
    loaded = load_model(model.save(tmp_path / "model"))
    np.testing.assert_allclose(loaded.score_classes(X_new), scores, rtol=1e-6, atol=1e-8)
    # A new fit forgets what was centred.
    model.set_params(centering="none").fit(X, y, seen).add_classes(unseen)
    plain = build(name, **maps).fit(X, y, seen).add_classes(unseen)
    np.testing.assert_allclose(
        model.score_classes(X_new), plain.score_classes(X_new), rtol=1e-6, atol=1e-8
    )


@pytest.mark.parametrize("name", CENTERING)
def test_a_grid_over_centering_equals_separate_fits(data, name):
    X, y, seen, unseen, X_new = parts(data)
    grid = [
        {"feature_map": f, "centering": c}
        for c in ("both", "none", "features", "attributes")
        for f in ("sqrt+l2", "l2")
    ]
    found = dict(build(name).score_grid(grid, make_fold(X, y, seen, unseen, X_new)))
    for index, setting in enumerate(grid):
        model = build(name, **setting).fit(X, y, seen).add_classes(unseen)
        np.testing.assert_allclose(found[index], model.score_classes(X_new), rtol=1e-6, atol=1e-8)


def test_a_wrong_centering_is_refused(data):
    X, y, seen, _, _ = parts(data)
    with pytest.raises(DataError, match="centering must be one of"):
        build("eszsl", centering="rows").fit(X, y, seen)


def test_a_model_without_its_centres_is_refused(data, tmp_path):
    X, y, seen, _, _ = parts(data)
    folder = build("eszsl").fit(X, y, seen).save(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    config["parameters"]["centering"] = "both"
    config["sha256"]["config.json"] = config_digest(config)
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelFolderError, match="feature_center_"):
        load_model(folder)


# In one space a map of either side would part them. CADA-VAE trains networks for every setting, so
# it does not search for maps.
@pytest.mark.parametrize(
    "name", [n for n, e in BASELINES.items() if not e.shared_space and n != "cada-vae"]
)
def test_selection_may_choose_both_maps(name):
    stages = build(name).default_stages()
    grids = [grid for stage in stages for grid in (stage if isinstance(stage, list) else [stage])]
    for map_name in ("feature_map", "attribute_map"):
        offered = {value for grid in grids for value in grid.get(map_name, [])}
        assert {"sqrt+l2"} < offered, map_name


@pytest.mark.parametrize("name", ["feature_map", "attribute_map"])
def test_an_unknown_map_is_refused(data, name):
    X, y, seen, _, _ = parts(data)
    with pytest.raises(DataError, match=f"{name} must be one of"):
        build("eszsl", **{name: "log"}).fit(X, y, seen)
