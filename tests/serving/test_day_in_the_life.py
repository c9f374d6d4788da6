"""A day in the life of a class, while the service is killed again and again."""

from __future__ import annotations

import numpy as np
import pytest
from tests.registries import Registry

import hgkt
from hgkt.client import RetryPolicy
from hgkt.estimators import HGKTClassifier, load_model
from hgkt.serving.edition import model_identity
from hgkt.serving.live_model import ServedModel
from hgkt.serving.transfer import ModelFacts, adopt_classes, find_source

from .mortal import MortalService

pytestmark = pytest.mark.endure

PATIENT = RetryPolicy(retries=500, first=0.05, most=0.2)


@pytest.fixture(scope="module")
def digits_folder(digits, tmp_path_factory):
    """The closed form on the eight seen digits, with the calibration that it finds itself."""
    X, y = digits.rows("train")
    model = HGKTClassifier(device="cpu")
    model.fit(X, y, digits.attributes_of(digits.seen_classes))
    return model.save(tmp_path_factory.mktemp("day") / "model")


@pytest.mark.parametrize("deaths", [{"grow again"}, pytest.param(None, marks=pytest.mark.slow)])
def test_a_class_lives_through_a_day_on_which_the_service_dies(
    deaths, digits_folder, retrained_folder, digits, database, free_port
):
    six = digits.attributes_of(digits.unseen_classes)["six"]
    X, y = digits.rows("test_unseen")
    own, tests = X[y == "six"][:40], X[y == "six"][40:]
    service = MortalService(free_port, digits_folder, database, seed=len(database))
    service.start()

    def step(name, act):
        """Do something, with the service dying about then."""
        if deaths is not None and name not in deaths:
            return act()
        with service.dying():
            return act()

    with hgkt.Client(service.address, timeout=120, retry=PATIENT) as client:
        try:
            client.wait_until_ready()
            day(client, step, six, own, tests)
        finally:
            service.end()
    with Registry(database, model_identity(load_model(digits_folder))) as registry:
        log = registry.events()
        state = registry.table()
    kinds = ["add", "edit", "grow", "grow", "rename", "remove", "rollback", "rollback"]
    assert [line.kind for line in log] == kinds
    assert [line.revision for line in log] == [1, 2, 3, 4, 5, 6, 7, 7]
    assert [entry.name for entry in state.entries] == ["six"]
    assert state.growth["six"].n_examples == 40
    assert service.n_kills == (1 if deaths else 7)
    migrate(database, digits_folder, retrained_folder, own, tests)


def migrate(database, old, new, own, tests):
    """The class goes on in a retrained model, with all that it has learned."""
    model = load_model(new)
    facts = ModelFacts.of(model, "new")
    with Registry(database, model_identity(model)) as registry:
        served = ServedModel(model, registry)
        migration, revision = adopt_classes(find_source(database, str(old)), served, facts)
        assert (revision, migration.growing["six"].n_examples) == (1, 40)
        found = served.refresh().model
    expected = load_model(new).add_classes({"six": migration.moving[0].attributes})
    expected.partial_fit(own, ["six"] * 40)
    np.testing.assert_allclose(
        found.decision_function(tests), expected.decision_function(tests), atol=1e-10
    )


def day(client, step, six, own, tests):
    def recognised(**more):
        return float(np.mean(client.predict(tests, **more) == "six"))

    step("add", lambda: client.add_class("six", vector=six[::-1], reason="described"))
    poorly = recognised()
    step("edit", lambda: client.edit_class("six", vector=six, reason="better"))
    described = recognised()
    assert described > poorly
    assert client.classes(query="six")[0].kind == "described"
    step("grow", lambda: client.grow_class("six", own[:15]))
    grown = step("grow again", lambda: client.grow_class("six", own[15:]))
    assert (grown.revision, grown.n_examples) == (4, 40)
    learned = recognised()
    assert learned > described + 0.1
    renamed = step("rename", lambda: client.rename_class("six", "sechs"))
    assert (renamed.revision, renamed.names) == (5, ("sechs",))
    assert np.mean(client.predict(tests) == "sechs") == learned
    step("remove", lambda: client.remove_class("sechs"))
    assert not client.classes(query="sechs")
    back = step("rollback", lambda: client.rollback(4, reason="it was needed"))
    assert (back.revision, back.names) == (7, ("six",))
    assert recognised() == learned
    assert [recognised(revision=n) for n in (1, 2, 4)] == [poorly, described, learned]
