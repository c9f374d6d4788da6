from __future__ import annotations

import sqlite3
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import sqlalchemy as sa
from tests.registries import Registry

from hgkt.estimators import HGKTClassifier, load_model
from hgkt.exceptions import DataError
from hgkt.serving import database as db
from hgkt.serving.database import RegistryError
from hgkt.serving.edition import model_identity
from hgkt.serving.events import ClassEntry, ClassExistsError, UnknownClassError


def names(registry):
    return [entry.name for entry in registry.table().entries]


# ---------------------------------------------------------------------- what is kept
def test_registry_keeps_every_bit_of_a_class(open_registry):
    values = np.array([0.1, -0.0, 5e-324, 1.7976931348623157e308, -1 / 3])
    given = [
        ClassEntry("Grüner Specht / 緑/啄木鳥 🐦", values, "Ein „Vogel“,\nganz grün."),
        ClassEntry("a.b/../c%2F?d=e#f", values[::-1], None),
    ]
    open_registry().add(given)
    found = open_registry().table().entries
    assert [(e.name, e.text) for e in found] == [(e.name, e.text) for e in given]
    for before, after in zip(given, found, strict=True):
        assert after.attributes.dtype == np.float64
        assert after.attributes.tobytes() == before.attributes.tobytes()
        assert after.added_at.endswith("+00:00")


@pytest.mark.smoke
def test_registry_numbers_changes_and_logs_them_in_order(open_registry, entry):
    registry = open_registry()
    assert registry.revision() == 0
    assert registry.add([entry("one"), entry("two", text="a two")]) == 1
    assert registry.remove(["one"]) == 2
    assert registry.add([entry("one", 7.0)]) == 3
    assert registry.revision() == 3
    log = open_registry().whole_log()
    assert [(e.revision, e.kind, e.entry.name) for e in log] == [
        (1, "add", "one"),
        (1, "add", "two"),
        (2, "remove", "one"),
        (3, "add", "one"),
    ]
    assert log[1].entry.text == "a two"
    assert log[3].entry.attributes.tolist() == [7.0]
    assert [e.revision for e in registry.events(after=2)] == [3]
    assert registry.events(after=3) == []
    assert names(registry) == ["two", "one"]


def test_registry_refuses_a_name_that_differs_by_case_from_one_of_another_worker(
    open_registry, entry
):
    registry, other = open_registry(), open_registry()
    registry.table(), other.table()  # both have read before either writes
    registry.add([entry("one"), entry("two")])
    for change in (
        lambda: other.add([entry("ONE")]),
        lambda: other.edit({"two": "One"}),
        lambda: other.add([entry("three"), entry("Three")]),
    ):
        with pytest.raises(DataError, match="by case or blanks only"):
            change()
    other.edit({"two": "Two"})  # itself in another case
    assert names(registry) == ["one", "Two"]


def test_registry_adds_all_or_nothing(open_registry, entry):
    registry = open_registry()
    registry.add([entry("taken")])
    with pytest.raises(ClassExistsError, match="class 'taken' is there already") as caught:
        registry.add([entry("new"), entry("taken"), entry("newer")])
    assert caught.value.name == "taken"
    for bad in (
        entry("twice"),
        entry(""),
        entry("x" * 201),
        entry("bell\a"),
        entry("half \ud800"),
        entry("far", np.inf),
        entry("none", np.nan),
        entry("zero", text="a\0b"),
    ):
        with pytest.raises(DataError):
            registry.add([entry("twice"), bad])
    with pytest.raises(DataError, match="at least one"):
        registry.add([])
    assert names(registry) == ["taken"]
    assert registry.revision() == 1
    assert len(registry.whole_log()) == 1


def test_registry_removes_all_or_nothing(open_registry, entry):
    registry = open_registry()
    registry.add([entry("one"), entry("two")])
    with pytest.raises(UnknownClassError, match="there is no class 'three'"):
        registry.remove(["one", "three"])
    assert names(registry) == ["one", "two"]
    assert registry.remove(["one", "one"]) == 2
    assert names(registry) == ["two"]


def test_registry_remembers_removed_classes_of_the_model_folder(open_registry, entry):
    registry, saved = open_registry(), {"blot": ClassEntry("blot", np.ones(3))}
    with pytest.raises(ClassExistsError):
        registry.add([entry("blot")], saved=saved)
    registry.remove(["blot"], saved=saved)
    assert registry.table().removed == {"blot"}
    with pytest.raises(UnknownClassError):
        registry.remove(["blot"], saved=saved)
    registry.add([entry("blot")], saved=saved)
    assert names(registry) == ["blot"]
    registry.remove(["blot"], saved=saved)
    state = open_registry().table()
    assert (state.entries, state.removed, state.revision) == ((), {"blot"}, 3)


def test_registry_keeps_models_apart(open_registry, entry):
    birds, fish = open_registry("birds"), open_registry("fish")
    birds.add([entry("one"), entry("two")])
    assert fish.add([entry("one", 9.0)]) == 1
    birds.remove(["one"])
    assert names(birds) == ["two"]
    assert names(fish) == ["one"]
    assert fish.revision() == 1
    assert [e.kind for e in fish.whole_log()] == ["add"]


def test_registry_takes_many_classes_at_once(open_registry, entry):
    registry = open_registry()
    many = [f"class {i}" for i in range(1201)]
    registry.add([entry(name) for name in many])
    assert names(registry) == many
    with pytest.raises(ClassExistsError, match="class 1200"):
        registry.add([entry(f"other {i}") for i in range(1200)] + [entry("class 1200")])
    registry.remove(many[::-1])
    assert names(registry) == []


def test_registry_lets_one_of_many_threads_win(open_registry, entry):
    registry = open_registry()
    barrier = threading.Barrier(8)

    def attempt(_):
        barrier.wait()
        try:
            return registry.add([entry("zebra")])
        except ClassExistsError:
            return None

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(attempt, range(8)))
    assert sorted(outcomes, key=str) == [1] + [None] * 7
    assert names(registry) == ["zebra"]


# ---------------------------------------------------------------------- several at once
def after_reading(registry, table, act):
    """Have `act` called once, right after `registry` has read a table."""
    waiting = [act]

    @sa.event.listens_for(registry.database.engine, "after_cursor_execute")
    def _read(_connection, _cursor, statement, *_):
        if statement.startswith("SELECT") and f"FROM {table} " in " ".join(statement.split()):
            while waiting:
                waiting.pop()()


def test_state_is_that_of_one_moment_whatever_is_written_meanwhile(open_registry, entry):
    reader, writer = open_registry(), open_registry()
    writer.add([entry("one")])
    after_reading(reader, "hgkt_models", lambda: writer.add([entry("two")]))
    after_reading(
        reader, "hgkt_events", lambda: writer.remove(["blot"], saved={"blot": ClassEntry("blot")})
    )
    state = reader.table()
    assert (state.revision, [e.name for e in state.entries], state.removed) == (1, ["one"], set())
    state = reader.table()
    assert (state.revision, [e.name for e in state.entries]) == (3, ["one", "two"])
    assert state.removed == {"blot"}


def test_a_change_waits_for_the_one_before_it(open_registry, entry):
    first, second = open_registry(), open_registry()
    first.add([entry("old")])
    later = []

    def follow():
        later.append(pool.submit(second.remove, ["old"]))
        with pytest.raises(TimeoutError):
            later[0].result(timeout=0.3)

    with ThreadPoolExecutor(1) as pool:
        after_reading(first, "hgkt_models", follow)  # the last look before it writes
        assert first.add([entry("new")]) == 2
        assert later[0].result() == 3
    assert [(e.revision, e.kind, e.entry.name) for e in second.events(after=1)] == [
        (2, "add", "new"),
        (3, "remove", "old"),
    ]
    assert names(first) == ["new"]


def test_many_writers_leave_no_gap_between_revisions(open_registry, entry):
    registries = [open_registry() for _ in range(4)]

    def write(number):
        return [registries[number].add([entry(f"{number}.{i}")]) for i in range(6)]

    with ThreadPoolExecutor(4) as pool:
        revisions = [revision for found in pool.map(write, range(4)) for revision in found]
    assert sorted(revisions) == list(range(1, 25))
    log = registries[0].whole_log()
    assert [event.revision for event in log] == list(range(1, 25))
    assert [event.entry.name for event in log] == names(registries[0])


def test_many_may_open_an_empty_database_at_once(database, entry):
    barrier = threading.Barrier(6)

    def attempt(_):
        barrier.wait()
        return Registry(database, "model")

    with ThreadPoolExecutor(6) as pool:
        registries = list(pool.map(attempt, range(6)))
    assert [registry.add([entry(str(i))]) for i, registry in enumerate(registries)] == [
        *range(1, 7)
    ]
    for registry in registries:
        registry.close()


@pytest.mark.parametrize("statement", ["INSERT INTO hgkt_events", "UPDATE hgkt_models"])
def test_a_change_that_fails_at_its_end_leaves_nothing(open_registry, entry, statement):
    registry, saved = open_registry(), {"blot": ClassEntry("blot")}
    registry.add([entry("one")])
    before = registry.table()

    def fail(_connection, _cursor, text, *_):
        if text.startswith(statement):
            raise RuntimeError("the power went")

    sa.event.listen(registry.database.engine, "before_cursor_execute", fail)
    with pytest.raises(RuntimeError):
        registry.add([entry("two")])
    with pytest.raises(RuntimeError):
        registry.remove(["one", "blot"], saved=saved)
    sa.event.remove(registry.database.engine, "before_cursor_execute", fail)
    for other in (registry, open_registry()):
        assert names(other) == ["one"]
        assert (other.table().revision, other.table().removed) == (1, before.removed)
        assert len(other.whole_log()) == 1
    assert registry.add([entry("two")]) == 2


# ---------------------------------------------------------------------- what can go wrong
def test_registry_refuses_a_newer_schema(open_registry, database):
    registry = open_registry()
    with registry.database.writing() as connection:
        connection.execute(db.schema_table.insert().values(version=99))
    with pytest.raises(RegistryError, match="newer release of hgkt") as caught:
        Registry(database, "model")
    assert caught.value.kind == "newer"


def test_registry_says_that_it_is_locked_and_goes_on_afterwards(
    open_registry, entry, monkeypatch, database
):
    monkeypatch.setattr(db, "BUSY_SECONDS", 0.2)
    monkeypatch.setattr(db, "WRITE_SECONDS", 0.2)
    registry, other = open_registry(), open_registry()
    with other.database.writing() as connection:
        other._lock(connection)
        with pytest.raises(RegistryError, match="is busy with other writers") as caught:
            registry.add([entry("zebra")])
        assert registry.revision() == 0  # reading does not wait for writers
    assert caught.value.kind == "locked"
    assert registry.add([entry("zebra")]) == 1


def test_registry_says_that_a_sqlite_file_is_read_only(tmp_path, entry):
    path = tmp_path / "classes.sqlite"
    Registry(f"sqlite:///{path}", "model").close()
    registry = Registry(f"sqlite:///file:{path}?mode=ro&uri=true", "model")
    with pytest.raises(RegistryError, match="may be read only") as caught:
        registry.add([entry("zebra")])
    assert caught.value.kind == "read-only"
    assert registry.revision() == 0
    registry.close()


@pytest.mark.endure
def test_registry_says_that_postgresql_is_read_only(postgresql_url, entry):
    registry = Registry(postgresql_url, "model")
    with registry.database.writing() as connection:
        connection.exec_driver_sql(
            f"ALTER DATABASE {registry.database.engine.url.database} "
            "SET default_transaction_read_only = on"
        )
    registry.database.engine.dispose()
    with pytest.raises(RegistryError, match="may be read only"):
        registry.add([entry("zebra")])
    assert registry.revision() == 0
    registry.close()


def test_registry_names_what_is_no_database(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("these are notes, not a database\n" * 100)
    with pytest.raises(RegistryError, match=r"notes\.txt is damaged or is not a database"):
        Registry(f"sqlite:///{path}", "model")
    with pytest.raises(RegistryError, match="cannot be reached") as caught:
        Registry(f"sqlite:///{tmp_path}/no/such/folder/classes.sqlite", "model")
    assert caught.value.kind == "unreachable"


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "mysql://host/x", "classes"])
def test_registry_refuses_what_cannot_keep_classes(url):
    with pytest.raises(DataError, match="registry"):
        Registry(url, "model")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:hunter2-secret@127.0.0.1:1/birds",
        "postgresql://ann@127.0.0.1:1/birds?password=hunter2-secret",
        "postgresql://ann:hunter2-secret@127.0.0.1:port/birds",
    ],
)
def test_registry_never_tells_a_password(url, caplog):
    with pytest.raises((RegistryError, DataError)) as caught:
        Registry(url, "model")
    told = "".join(traceback.format_exception(caught.value, chain=True)) + caplog.text
    assert "hunter2" not in told
    if isinstance(caught.value, RegistryError):
        assert caught.value.kind == "unreachable"
        assert str(caught.value) == "the class registry 127.0.0.1/birds cannot be reached"


@pytest.mark.endure
def test_registry_survives_a_restart_of_the_server(postgresql_url, entry):
    registry, other = (Registry(postgresql_url, "model") for _ in range(2))
    assert registry.revision() == 0
    with other.database.writing() as connection:
        connection.exec_driver_sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    assert registry.add([entry("zebra")]) == 1
    assert registry.revision() == 1
    registry.close()
    other.close()


def test_registry_writes_sqlite_so_that_it_survives_a_power_cut(tmp_path):
    path = tmp_path / "classes.sqlite"
    registry = Registry(f"sqlite:///{path}", "model")
    with registry.database.reading() as connection:
        full = 2
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == full
    with sqlite3.connect(path) as plain:
        assert plain.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    plain.close()
    registry.close()


@pytest.mark.endure
def test_registry_is_durable_where_the_postgresql_server_is_not(postgresql_url):
    registry = Registry(postgresql_url, "model")
    with registry.database.writing() as connection:
        connection.exec_driver_sql(
            f"ALTER DATABASE {registry.database.engine.url.database} SET synchronous_commit = off"
        )
    registry.database.engine.dispose()
    with registry.database.reading() as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "off"
    with registry.database.writing() as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
    registry.close()


# ---------------------------------------------------------------------- which model
def test_model_identity_is_that_of_what_was_learned(digits, digits_model, digits_folder, tmp_path):
    own = model_identity(digits_model)
    assert own == model_identity(load_model(digits_folder))
    digits_model.add_classes(digits.attributes_of(digits.unseen_classes))
    assert model_identity(digits_model) == own
    assert model_identity(load_model(digits_model.save(tmp_path / "more"))) == own
    assert model_identity(digits_model.set_params(calibration=0.7)) == own

    X, y = digits.rows("train")
    table = digits.attributes_of(digits.seen_classes)
    others = [
        HGKTClassifier(device="cpu").fit(X[1:], y[1:], table),
        HGKTClassifier(device="cpu").fit(X, y, {k: v[::-1] for k, v in table.items()}),
        HGKTClassifier(device="cpu", ridge=0.5).fit(X, y, table),
    ]
    assert len({own, *map(model_identity, others)}) == 4
