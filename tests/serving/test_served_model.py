from __future__ import annotations

import threading
import time

import numpy as np
import psycopg
import pytest
import sqlalchemy as sa
from tests.registries import Registry

from hgkt.estimators import HGKTClassifier
from hgkt.exceptions import DataError
from hgkt.language import ClassDescription, Describer
from hgkt.serving import database as schema
from hgkt.serving.database import RegistryError
from hgkt.serving.edition import model_identity
from hgkt.serving.events import ClassEntry, ClassExistsError, ClassLearnedError, UnknownClassError
from hgkt.serving.live_model import ServedModel
from hgkt.serving.settings import ServiceSettings


@pytest.fixture
def unseen(digits):
    """Descriptions of the two unseen digits by their vectors."""
    table = digits.attributes_of(digits.unseen_classes)
    return [ClassDescription(name, vector=vector) for name, vector in table.items()]


def added(served):
    return served.current().model.unseen_classes_.tolist()


def wait_for(condition, seconds=60.0):
    """Wait until a condition holds; a time limit keeps a failure from hanging."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


# ---------------------------------------------------------------------- adding and removing
def test_served_model_shows_its_own_writes_at_once(make_served, digits, unseen, digits_model):
    served = make_served()
    before = served.current()
    assert (before.revision, added(served)) == (0, ["blot"])
    receipt = served.add(unseen)
    after = served.current()
    assert (receipt.doubts, receipt.n_classes) == ((), len(after.names))
    assert after.revision == 1
    assert added(served) == ["blot", "two", "six"]
    assert set(after.table.classes) == {"two", "six"}
    # Readers of the old edition are not disturbed.
    assert before.model.unseen_classes_.tolist() == ["blot"]

    X, _ = digits.rows("test_unseen")
    expected = digits_model.add_classes(digits.attributes_of(digits.unseen_classes))
    assert np.array_equal(after.model.score_classes(X), expected.score_classes(X))
    served.remove(["two"])
    last = served.current()
    assert (last.revision, added(served)) == (2, ["blot", "six"])
    assert set(last.table.classes) == {"six"}


def test_served_model_finds_everything_again_after_a_restart(make_served, unseen, digits):
    first = make_served()
    first.add(unseen)
    first.remove(["blot"])
    first.remove(["two"])
    first.add(unseen[:1])
    second = make_served()
    assert second.current().revision == first.current().revision == 4
    assert added(second) == added(first) == ["six", "two"]
    assert [e.added_at for e in second.current().table.entries] == [
        e.added_at for e in first.current().table.entries
    ]
    X, _ = digits.rows("test_unseen")
    np.testing.assert_allclose(
        second.current().model.score_classes(X), first.current().model.score_classes(X), rtol=1e-5
    )


def test_served_model_sees_what_another_one_changes(make_served, unseen):
    writer, reader = make_served(), make_served(start=True, poll_seconds=0.05)
    writer.add(unseen)
    wait_for(lambda: reader.current().revision == 1)
    assert added(reader) == ["blot", "two", "six"]
    writer.remove(["blot"])
    wait_for(lambda: reader.current().revision == 2)
    assert added(reader) == ["two", "six"]
    assert reader.healthy()


def test_served_model_sees_a_class_of_another_one_within_a_second(make_served, unseen):
    writer, reader = make_served(), make_served(start=True)
    assert reader.poll_seconds <= 0.25
    writer.add(unseen)
    wait_for(lambda: "six" in added(reader))


@pytest.mark.endure
def test_a_registry_of_twenty_thousand_classes_is_opened_and_followed_by_few_reads(
    digits_model, tmp_path
):
    url, identity = f"sqlite:///{tmp_path / 'many.sqlite'}", model_identity(digits_model)
    rows = np.random.default_rng(0).random((20_001, digits_model.class_attributes_.shape[1]))
    entries = [ClassEntry(f"class {number}", row) for number, row in enumerate(rows)]
    statements = []
    with Registry(url, identity) as writer, Registry(url, identity) as registry:
        for start in range(0, 20_000, 1000):
            writer.add(entries[start : start + 1000])

        def count(_connection, _cursor, text, *_more):
            statements.append(text)

        sa.event.listen(registry.database.engine, "before_cursor_execute", count)
        served = ServedModel(digits_model, registry)
        assert len(served.current().names) == 20_009
        assert sum("hgkt_events" in text for text in statements) == 1
        first = served.current().model
        writer.add(entries[20_000:])
        statements.clear()
        assert served.refresh().names.count("class 20000") == 1
        assert sum("hgkt_events" in text for text in statements) == 1
        assert first.classes_.shape == (20_009,)  # readers of the edition before are not disturbed


def test_served_model_refuses_names_that_are_taken(make_served, unseen):
    served, other = make_served(), make_served()
    other.add(unseen[:1])
    vector = unseen[0].vector
    for name in ("one", "blot", "two"):  # learned, saved in the folder, added elsewhere
        with pytest.raises(ClassExistsError, match=f"class '{name}' is there already"):
            served.add([unseen[1], ClassDescription(name, vector=vector)])
    with pytest.raises(DataError, match="given twice"):
        served.add([unseen[1], unseen[1]])
    assert added(served) == ["blot", "two"]
    assert served.registry.revision() == 1


def test_served_model_refuses_to_remove_what_it_cannot(make_served):
    served = make_served()
    with pytest.raises(ClassLearnedError, match="class 'one' was learned from instances"):
        served.remove(["blot", "one"])
    with pytest.raises(UnknownClassError, match="there is no class 'zebra'"):
        served.remove(["blot", "zebra"])
    assert added(served) == ["blot"]
    assert served.registry.revision() == 0


def test_served_model_removes_a_class_of_the_folder_for_good(make_served):
    vector = np.full(make_served().describer.n_attributes, 0.25)
    make_served().remove(["blot"])
    served = make_served()
    assert added(served) == []
    served.add([ClassDescription("blot", vector=vector)])
    now = served.current()
    place = now.columns["blot"]
    assert now.model.class_attributes_[place].tolist() == vector.tolist()
    again = make_served()
    assert again.current().model.class_attributes_[place].tolist() == vector.tolist()
    again.remove(["blot"])
    assert added(make_served()) == []
    assert served.refresh().revision == 3
    assert added(served) == []


def test_served_model_prefers_the_registry_to_a_folder_that_got_the_class_later(
    make_served, unseen, digits_model
):
    make_served().add(unseen)
    digits_model.add_classes({"two": np.ones(len(unseen[0].vector))})
    now = make_served(digits_model).current()
    assert sorted(now.model.unseen_classes_.tolist()) == ["blot", "six", "two"]
    row = now.model.class_attributes_[now.columns["two"]]
    assert row.tolist() == np.asarray(unseen[0].vector, dtype=np.float64).tolist()


def test_served_model_writes_nothing_that_the_model_cannot_take(make_served, unseen):
    served = make_served()
    width = len(unseen[0].vector)
    for bad, message in [
        (ClassDescription("bad", vector=np.ones(width - 1)), "are expected"),
        (ClassDescription("bad", vector=np.full(width, np.nan)), "finite"),
        (ClassDescription("bad", attributes={"no such attribute": 1.0}), "no attribute"),
        (ClassDescription("bad\n", vector=np.ones(width)), "control character"),
        (ClassDescription("bad", text="some words"), "text"),
    ]:
        with pytest.raises(DataError, match=message):
            served.add([unseen[0], bad])
    assert served.registry.revision() == 0
    assert added(served) == ["blot"]


def test_served_model_refuses_a_class_that_would_win_every_prediction(make_served, small_euclidean):
    served = make_served(small_euclidean)
    with pytest.raises(DataError, match="too large"):
        served.add([ClassDescription("huge", vector=[1.7e308, 1.7e308])])
    assert served.registry.revision() == 0


@pytest.fixture
def small_euclidean():
    X = np.array([[3.0, 1.0], [3.0, 1.2], [1.0, 3.0], [1.1, 3.0]])
    model = HGKTClassifier(kernel="linear", attribute_map="none", metric="euclidean")
    return model.fit(X, ["a", "a", "b", "b"], {"a": [1.0, 0.0], "b": [0.0, 1.0]})


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_served_model_turns_names_into_numbers_where_labels_are_numbers(make_served):
    X = np.array([[3.0, 1.0], [3.0, 1.2], [1.0, 3.0], [1.1, 3.0]])
    model = HGKTClassifier().fit(X, [10, 10, 20, 20], {10: [1.0, 0.0], 20: [0.0, 1.0]})
    served = make_served(model)
    served.add([ClassDescription("007", vector=[1.0, 1.0])])
    now = served.current()
    assert now.model.classes_.tolist() == [7, 10, 20]
    assert now.model.classes_.dtype.kind == "i"
    assert now.names[now.find("7")] == "7"
    for name in ("7", " 10 "):
        with pytest.raises(ClassExistsError):
            served.add([ClassDescription(name, vector=[1.0, 1.0])])
    for name in ("seven", "1.5", "9" * 30, "nan"):
        with pytest.raises(DataError, match="are numbers"):
            served.add([ClassDescription(name, vector=[1.0, 1.0])])
        with pytest.raises(UnknownClassError):
            served.remove([name])
    assert make_served(model).current().model.classes_.tolist() == [7, 10, 20]
    served.remove(["7"])
    assert served.current().model.classes_.tolist() == [10, 20]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_served_model_keeps_texts(make_served, unseen):
    class WordLengths(Describer):
        def vectors(self, descriptions):
            row = np.linspace(0, 1, self.n_attributes)
            return np.array([row * len(item.text) for item in descriptions])

    describer = WordLengths({}, len(unseen[0].vector))
    served = make_served()
    served.describer = describer
    served.add([ClassDescription("zebra", text="striped"), ClassDescription("horse", text="plain")])
    assert {e.name: e.text for e in served.current().table.entries} == {
        "zebra": "striped",
        "horse": "plain",
    }
    served.remove(["horse"])
    served.add([ClassDescription("horse", text="brown")])
    assert {e.name: e.text for e in make_served().current().table.entries} == {
        "zebra": "striped",
        "horse": "brown",
    }


# ---------------------------------------------------------------------- following the registry
def tables(registry):
    """Return what a backup of the registry holds."""
    with registry.database.reading() as connection:
        found = {
            table: [dict(row._mapping) for row in connection.execute(sa.select(table))]
            for table in (schema.models, schema.events)
        }
    return found


def test_served_model_reloads_after_a_restored_database(make_served, unseen):
    writer, reader = make_served(), make_served()
    writer.add(unseen[:1])
    kept = tables(writer.registry)
    writer.add(unseen[1:])
    assert reader.refresh().revision == 2
    assert added(reader) == ["blot", "two", "six"]
    with writer.registry.database.writing() as connection:  # an older state comes back
        for table in reversed(kept):
            connection.execute(table.delete())
        for table, rows in kept.items():
            connection.execute(table.insert(), rows)
    assert reader.refresh().revision == 1
    assert added(reader) == ["blot", "two"]


@pytest.mark.endure
def test_served_model_answers_while_the_database_is_away(postgresql_url, digits_model, unseen):
    name = psycopg.conninfo.conninfo_to_dict(postgresql_url)["dbname"]
    elsewhere = postgresql_url.replace(f"/{name}", "/postgres")
    registry = Registry(postgresql_url, model_identity(digits_model))
    with (
        ServedModel(digits_model, registry, poll_seconds=0.05) as served,
        psycopg.connect(elsewhere, autocommit=True) as operator,
    ):
        served.add(unseen[:1])
        operator.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        operator.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
        )
        wait_for(lambda: not served.healthy())
        assert "cannot be reached" in served.trouble
        with pytest.raises(RegistryError) as caught:
            served.add(unseen[1:])
        assert caught.value.kind == "unreachable"
        assert added(served) == ["blot", "two"]
        operator.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        wait_for(served.healthy)
        served.add(unseen[1:])
        assert added(served) == ["blot", "two", "six"]


def test_served_model_names_a_registry_whose_classes_do_not_fit(make_served, digits_model):
    served = make_served()
    served.registry.add([ClassEntry("short", np.ones(2))])
    with pytest.raises(RegistryError, match="is damaged") as caught:
        served.refresh()
    assert caught.value.kind == "corrupt"
    assert not served.healthy()
    assert added(served) == ["blot"]
    with pytest.raises(RegistryError, match="is damaged"):
        make_served()


def test_served_model_serves_readers_while_classes_come_and_go(make_served, digits, unseen):
    served = make_served(start=True, poll_seconds=0.01)
    X = digits.rows("test_seen")[0][:16]
    model = served.current().model
    expected = model.score_classes(X)[:, model.candidates("seen")]
    stop, wrong = threading.Event(), []

    def read():
        while not stop.is_set():
            model = served.current().model
            scores = model.score_classes(X)
            if scores.shape[1] != len(model.classes_) or not np.isfinite(scores).all():
                wrong.append("the shape of an edition changed under a reader")
            if not np.array_equal(scores[:, model.candidates("seen")], expected):
                wrong.append("scores of seen classes moved")

    readers = [threading.Thread(target=read) for _ in range(2)]
    for thread in readers:
        thread.start()

    def write(number):
        for i in range(8):
            name = f"class {number}.{i}"
            served.add([ClassDescription(name, vector=unseen[0].vector)])
            if i % 2:
                served.remove([name])

    writers = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in writers:
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    for thread in readers:
        thread.join()
    assert not wrong
    kept = {f"class {n}.{i}" for n in range(3) for i in range(0, 8, 2)}
    assert set(added(served)) == kept | {"blot"}
    assert served.current().revision == 3 * 12


def test_open_keeps_the_registry_beside_the_model(tmp_path, digits_folder, digits_model):
    folder = tmp_path / "served"
    folder.symlink_to(digits_folder)
    served = ServedModel.open(digits_model, ServiceSettings(folder))
    assert (tmp_path / "served.registry.sqlite").is_file()
    served.close()
