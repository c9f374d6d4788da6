"""What is chosen where classes are few and no selection is asked for."""

from __future__ import annotations

import numpy as np
import pytest

import hgkt
from hgkt.baselines.ridge import RidgeClassMeanClassifier
from hgkt.evaluation.selection import fit_dataset


@pytest.fixture(scope="module")
def digits():
    return hgkt.load_dataset("digits")


@pytest.fixture(scope="module")
def record(digits):
    return hgkt.evaluate(hgkt.HGKTClassifier(), digits)


@pytest.fixture(scope="module")
def gamma_alone(digits):
    return hgkt.evaluate(hgkt.HGKTClassifier(), digits, stages=[])


def test_every_digit_is_answered(digits):
    fitted = fit_dataset(hgkt.HGKTClassifier(), digits)
    assert fitted.chosen["metric"] == fitted.model.metric == "euclidean"
    assert not fitted.selected
    fitted.model.add_classes(digits.attributes_of(digits.unseen_classes))
    rows = np.concatenate([digits.rows(part)[0] for part in ("test_seen", "test_unseen")])
    assert set(fitted.model.predict(rows)) == set(fitted.model.classes_)


def test_the_result_comes_near_that_of_a_selection(record):
    assert record.metrics.H > 68  # a selection reaches 76, γ alone 65
    assert min(record.per_class.tr) > 0


def test_held_out_classes_decide(record, gamma_alone):
    assert record.selected["metric"] == record.parameters["metric"] == "euclidean"
    assert record.validation["n_settings"] == 2
    assert record.validation["score"] > gamma_alone.validation["score"]


def test_nothing_but_gamma_is_chosen_where_that_is_said(gamma_alone):
    assert gamma_alone.parameters["metric"] == "cosine"
    assert set(gamma_alone.selected) == {"calibration"}


def test_many_classes_and_what_was_set_are_left_alone():
    model, eight = hgkt.HGKTClassifier(), np.full(8, 30)
    assert model.plain_stages(np.full(19, 5)) == [{"metric": ["cosine", "euclidean"]}]
    assert model.plain_stages(np.full(20, 30)) == []
    compared = [[pool.base.metric for pool in model.member_pools(n)] for n in (19, 20)]
    assert compared == [["cosine", "euclidean"], ["cosine"]]
    assert hgkt.HGKTClassifier(metric="euclidean").plain_stages(eight) == []
    for params in ({"members": []}, {"shared_space": True}, {"shared_space": 0}):
        assert hgkt.HGKTClassifier(**params).plain_stages(eight) == []
    assert RidgeClassMeanClassifier().plain_stages(eight) == []


def test_too_few_rows_decide_nothing():
    assert hgkt.HGKTClassifier().plain_stages(np.array([1, 2, 2, 2, 2, 40])) == []


def test_a_gamma_that_counts_classes_alike_is_all_that_is_chosen(digits):
    fitted = fit_dataset(hgkt.HGKTClassifier(), digits, favour="classes")
    assert fitted.model.metric == "cosine"
