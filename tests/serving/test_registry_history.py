"""What the registry remembers: edits, names, growth, who and why, and the way back."""

from __future__ import annotations

import numpy as np
import pytest
import sqlalchemy as sa

from hgkt.exceptions import DataError
from hgkt.serving.database import RegistryError
from hgkt.serving.events import (
    ClassEntry,
    ClassExistsError,
    Origin,
    UnknownClassError,
    UnknownRevisionError,
)
from hgkt.serving.registry import KeyedRequest
from hgkt.statistics import ExampleSums

SAVED = {"blot": ClassEntry("blot", np.full(3, 0.25), "a blot")}


def sums(n=2, seed=0):
    return ExampleSums.of(np.random.default_rng(seed).random((n, 5)), ["l2"])


def contents(state):
    """Return all that a state says, but its revision."""
    return (
        [(e.name, e.attributes.tobytes(), e.text, e.added_at, e.place) for e in state.entries],
        state.removed,
        {name: (s.n_examples, s.to_bytes()) for name, s in state.growth.items()},
    )


def names(registry):
    return [entry.name for entry in registry.table().entries]


def live(registry, entry):
    """Let classes live through everything; return the state after each change, by revision."""
    states = {0: registry.table()}
    for change in (
        lambda: registry.add(
            [entry("one"), entry("two", text="a two"), entry("three")], saved=SAVED
        ),
        lambda: registry.edit({"two": entry("two", 9.0, 9.0, 9.0)}, saved=SAVED),
        lambda: registry.grow({"two": sums(2), "cat": sums(1, 1)}, saved=SAVED, learned={"cat"}),
        lambda: registry.edit({"two": "zwei", "blot": "fleck"}, saved=SAVED),
        lambda: registry.grow({"zwei": sums(3, 2)}, saved=SAVED),
        lambda: registry.edit({"zwei": entry("deux", 1.0, 2.0, 3.0, text="new")}, saved=SAVED),
        lambda: registry.remove(["one", "deux"], saved=SAVED),
        lambda: registry.add([entry("two"), entry("blot", 7.0, 7.0, 7.0)], saved=SAVED),
        lambda: registry.grow({"fleck": sums(1, 3)}, saved=SAVED),
    ):
        revision = change()
        states[revision] = registry.table()
    return states


# ---------------------------------------------------------------------- edit and rename
def test_edit_keeps_the_place_the_time_and_the_growth(open_registry, entry):
    registry = open_registry()
    registry.add([entry("one"), entry("two"), entry("three")])
    added_at = registry.table().entries[1].added_at
    registry.grow({"two": sums()})
    assert registry.edit({"two": entry("deux", 4.0, 5.0, 6.0, text="the second")}) == 3
    state = open_registry().table()
    assert [e.name for e in state.entries] == ["one", "deux", "three"]
    changed = state.entries[1]
    assert changed.attributes.tolist() == [4.0, 5.0, 6.0]
    assert (changed.text, changed.added_at) == ("the second", added_at)
    assert state.growth["deux"].n_examples == 2
    assert "two" not in state.growth


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_edit_and_rename_are_refused_whole(open_registry, entry):
    registry = open_registry()
    registry.add([entry("one"), entry("two")])
    registry.remove(["blot"], saved=SAVED)
    for change, error in (
        (lambda: registry.edit({"one": "two"}), ClassExistsError),
        (lambda: registry.edit({"one": "blot"}, saved=SAVED), None),
        (lambda: registry.edit({"two": "other", "none": "new"}), UnknownClassError),
        (lambda: registry.edit({"one": "same", "two": "same"}), DataError),
        (lambda: registry.edit({"two": entry("bell\a")}), DataError),
        (lambda: registry.edit({"two": entry("two", np.nan)}), DataError),
        (lambda: registry.edit({}), DataError),
        (
            lambda: registry.edit({"blot": "fleck"}, saved=SAVED),
            UnknownClassError,
        ),  # it was removed
        (lambda: registry.add([entry("x")], origin=Origin(reason="\0")), DataError),
        (lambda: registry.add([entry("x")], origin=Origin(reason="x" * 1001)), DataError),
    ):
        if error is None:
            change()  # a name whose class was removed is free
            assert names(registry) == ["blot", "two"]
            registry.edit({"blot": "one"}, saved=SAVED)
            continue
        with pytest.raises(error):
            change()
    assert names(registry) == ["one", "two"]
    assert registry.revision() == 4


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_class_of_the_folder_can_be_edited_and_renamed(open_registry, entry):
    registry = open_registry()
    registry.edit({"blot": "fleck"}, saved=SAVED)
    state = registry.table()
    assert state.removed == {"blot"}
    assert state.entries[0].attributes.tolist() == [0.25] * 3
    other = open_registry("other")
    other.edit({"blot": entry("blot", 1.0, 1.0, 1.0)}, saved=SAVED)
    assert (names(other), other.table().removed) == (["blot"], frozenset())
    # Once more renamed, what lies in the folder under the old name stays away.
    other.edit({"blot": "fleck"}, saved=SAVED)
    assert (names(other), other.table().removed) == (["fleck"], {"blot"})


# ---------------------------------------------------------------------- growth
def test_growth_adds_up_and_goes_with_its_class(open_registry, entry):
    registry = open_registry()
    registry.add([entry("one")])
    rows = np.random.default_rng(0).random((5, 5))
    for part in (rows[:2], rows[2:3], rows[3:]):
        registry.grow({"one": ExampleSums.of(part, ["l2"])})
    kept = open_registry().table().growth["one"]
    whole = ExampleSums.of(rows, ["l2"])
    assert kept.n_examples == 5
    np.testing.assert_allclose(
        kept.sums_under("l2").total, whole.sums_under("l2").total, atol=1e-14
    )
    squares = [s.sums_under("l2").factor.T @ s.sums_under("l2").factor for s in (kept, whole)]
    np.testing.assert_allclose(*squares, atol=1e-14)
    with pytest.raises(UnknownClassError):
        registry.grow({"one": sums(), "nobody": sums()})
    registry.grow({"cat": sums()}, learned={"cat"})
    registry.remove(["one"])
    assert set(registry.table().growth) == {"cat"}
    registry.add([entry("one")])
    assert set(registry.table().growth) == {"cat"}


def test_a_request_grows_a_class_once(open_registry, entry):
    registry = open_registry()
    registry.add([entry("one")])
    request = KeyedRequest.of("key", "grow", "one")
    registry.grow({"one": sums()}, request=request)
    assert open_registry().grow({"one": sums(5)}, request=request) == 2
    assert registry.table().growth["one"].n_examples == 2
    receipt = open_registry().receipt(request)
    assert (receipt.names, receipt.n_examples, receipt.revision) == (("one",), 2, 2)


# ---------------------------------------------------------------------- the log
def test_the_log_says_who_when_why_and_what(open_registry, entry):
    registry = open_registry()
    registry.add([entry("one", text="a one")], origin=Origin("ann", "it came"))
    registry.edit({"one": entry("one", 4.0, 4.0, 4.0)}, origin=Origin("bob", "wrong \N{SNOWMAN}"))
    registry.edit({"one": "uno"})
    registry.grow({"uno": sums(3)})
    registry.grow({"uno": sums(1)})
    registry.remove(["uno"])
    log = open_registry().events()
    assert [(e.revision, e.kind, e.entry.name) for e in log] == [
        (1, "add", "one"),
        (2, "edit", "one"),
        (3, "rename", "uno"),
        (4, "grow", "uno"),
        (5, "grow", "uno"),
        (6, "remove", "uno"),
    ]
    assert [(e.origin.who, e.origin.reason) for e in log[:3]] == [
        ("ann", "it came"),
        ("bob", "wrong \N{SNOWMAN}"),
        (None, None),
    ]
    assert log[0].before is None
    assert (log[1].before.attributes.tolist(), log[1].before.text) == ([0.0, 0.5, 1.0], "a one")
    assert (log[1].entry.attributes.tolist(), log[1].entry.text) == ([4.0] * 3, None)
    assert (log[2].before.name, log[2].old_name) == ("one", "one")
    assert [(e.n_before, e.n_examples) for e in log[3:]] == [(0, 3), (3, 4), (4, 0)]
    assert log[5].before.attributes.tolist() == [4.0] * 3
    assert all(e.created_at.endswith("+00:00") for e in log)
    assert all(e.sums is None for e in log)  # lists stay light


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_the_log_is_read_in_whole_changes(open_registry, entry):
    registry = open_registry()
    registry.add([entry(f"a{i}") for i in range(5)])
    registry.add([entry("b")])
    registry.edit({"b": "c"})
    assert [len(registry.events(limit=n)) for n in (1, 5, 6, 100)] == [5, 5, 6, 7]
    assert [e.revision for e in registry.events(after=1, limit=1)] == [2]
    assert [e.revision for e in registry.events(name="b")] == [2, 3]
    assert registry.events(after=3) == []


# ---------------------------------------------------------------------- the way back
def test_every_earlier_state_can_be_had_and_returned_to(open_registry, entry):
    registry = open_registry()
    states = live(registry, entry)
    assert len(states) == 10
    for revision, expected in states.items():
        found = open_registry().table_at(revision)
        assert found.revision == revision
        assert contents(found) == contents(expected)
    for revision in (5, 2, 9, 0, 7):
        again = registry.rollback(revision, saved=SAVED, origin=Origin("ann", f"to {revision}"))
        assert contents(registry.table()) == contents(states[revision])
        assert contents(open_registry().table_at(again)) == contents(states[revision])
        head = registry.events(after=again - 1)[0]
        assert (head.kind, head.target, head.origin.reason) == (
            "rollback",
            revision,
            f"to {revision}",
        )
    # The way there is still there.
    assert contents(registry.table_at(8)) == contents(states[8])


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_rollback_to_what_there_is_changes_nothing_but_is_told(open_registry, entry):
    registry = open_registry()
    registry.add([entry("one")])
    before = contents(registry.table())
    assert registry.rollback(1) == 2
    assert contents(registry.table()) == before
    assert [e.kind for e in registry.events(after=1)] == ["rollback"]
    for revision in (-1, 3):
        with pytest.raises(UnknownRevisionError, match="the newest is 2"):
            registry.rollback(revision)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM hgkt_events WHERE revision = 4",
        "DELETE FROM hgkt_events WHERE revision = 1 AND position = 0",
        "DELETE FROM hgkt_events WHERE revision = 7 AND position = 1",
        "UPDATE hgkt_events SET sums = NULL WHERE revision = 5",
        "UPDATE hgkt_events SET document = replace(document, 'zwei', 'drei') WHERE revision = 4",
    ],
)
def test_a_damaged_history_is_never_returned_to(open_registry, entry, damage):
    registry = open_registry()
    live(registry, entry)
    with registry.database.writing() as connection:
        connection.exec_driver_sql(damage)
    with pytest.raises(RegistryError, match="damaged"):
        open_registry().rollback(7)
    assert registry.revision() == 9


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize("statement", ["INSERT INTO hgkt_events", "UPDATE hgkt_models"])
def test_a_change_that_breaks_off_leaves_nothing(open_registry, entry, statement):
    registry = open_registry()
    live(registry, entry)
    before = contents(registry.table())

    def fail(_connection, _cursor, text, *_):
        if text.startswith(statement):
            raise RuntimeError("the power went")

    sa.event.listen(registry.database.engine, "before_cursor_execute", fail)
    for change in (
        lambda: registry.edit({"three": entry("trois")}),
        lambda: registry.edit({"three": "trois"}),
        lambda: registry.grow({"three": sums()}),
        lambda: registry.rollback(3),
    ):
        with pytest.raises(RuntimeError):
            change()
    sa.event.remove(registry.database.engine, "before_cursor_execute", fail)
    other = open_registry()
    assert contents(other.table()) == before
    assert (other.revision(), len(other.events())) == (9, 15)
