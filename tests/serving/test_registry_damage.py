"""Databases that are damaged, removed, replaced, in memory, or of an older release."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing

import numpy as np
import pytest
from tests.registries import Registry

from hgkt.exceptions import DataError
from hgkt.language import ClassDescription
from hgkt.serving.database import RegistryError
from hgkt.serving.events import ClassEntry
from hgkt.serving.registry import KeyedRequest


def entries(n, seed=0):
    rows = np.random.default_rng(seed).normal(size=(n, 5))
    return [ClassEntry(f"class {i}", row, f"text {i}") for i, row in enumerate(rows)]


def contents(registry):
    state = registry.table()
    return [
        state.revision,
        *((e.name, e.attributes.tobytes(), e.text, e.added_at) for e in state.entries),
        *sorted(state.removed),
    ]


def fill(url):
    """Make a registry with some history; return what it holds."""
    with closing(Registry(url, "model")) as registry:
        registry.add(entries(20))
        registry.remove(["class 3", "saved"], saved={"saved": ClassEntry("saved")})
        registry.add([ClassEntry("late", np.ones(5))], request=KeyedRequest.of("key", "late"))
        return contents(registry)


# ---------------------------------------------------------------------- damage
def test_a_mutated_database_is_told_or_right(tmp_path):
    path = tmp_path / "whole.sqlite"
    expected = fill(f"sqlite:///{path}")
    whole = path.read_bytes()
    assert not path.with_name(path.name + "-wal").exists()
    rng = random.Random(7)
    right = told = 0
    for number in range(150):
        data = bytearray(whole)
        for _ in range(rng.choice((1, 1, 3))):
            place = rng.randrange(100, len(data))
            data[place] ^= 1 << rng.randrange(8)
        mutated = tmp_path / f"{number}.sqlite"
        mutated.write_bytes(data)
        try:
            with closing(Registry(f"sqlite:///{mutated}", "model")) as registry:
                assert contents(registry) == expected
                registry.whole_log()
                right += 1
        except RegistryError:
            told += 1
    assert told > 20
    assert right > 20  # pages that no row uses


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE hgkt_events SET document = '{}' WHERE name = 'class 5'",
        "UPDATE hgkt_events SET document = replace(document, 'A', 'B') WHERE name = 'class 5'",
        "DELETE FROM hgkt_events WHERE name = 'class 5'",
        "DELETE FROM hgkt_events WHERE revision = 3",
        "DELETE FROM hgkt_events WHERE name = 'saved'",
        "UPDATE hgkt_models SET revision = 7",
        "UPDATE hgkt_models SET revision = 2",
        "UPDATE hgkt_models SET digest = ''",
        "UPDATE hgkt_events SET digest = '' WHERE name = 'class 5'",
        "UPDATE hgkt_events SET document = 12 WHERE name = 'class 5'",
        "UPDATE hgkt_events SET position = 99 WHERE name = 'class 5'",
        "UPDATE hgkt_models SET model_id = 'other'",
    ],
)
def test_rows_that_do_not_say_what_was_written_are_refused(tmp_path, damage):
    path = tmp_path / "classes.sqlite"
    fill(f"sqlite:///{path}")
    with closing(sqlite3.connect(path)) as plain, plain:
        plain.execute(damage)
    with pytest.raises(RegistryError, match="is damaged or is not a database"):
        contents(Registry(f"sqlite:///{path}", "model"))


def test_a_damaged_line_of_the_log_is_refused(open_registry):
    registry = open_registry()
    registry.add(entries(2))
    with registry.database.writing() as connection:
        connection.exec_driver_sql("UPDATE hgkt_events SET name = 'other' WHERE position = 1")
    with pytest.raises(RegistryError, match="damaged") as caught:
        open_registry().whole_log()
    assert caught.value.kind == "corrupt"


def test_a_database_of_an_earlier_release_is_refused(tmp_path):
    path = tmp_path / "classes.sqlite"
    fill(f"sqlite:///{path}")
    with closing(sqlite3.connect(path)) as plain, plain:
        plain.execute("UPDATE hgkt_schema SET version = 3")
    with pytest.raises(RegistryError, match="earlier release of hgkt") as caught:
        Registry(f"sqlite:///{path}", "model")
    assert caught.value.kind == "older"


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are POSIX")
def test_only_the_owner_may_read_a_new_registry(tmp_path):
    path = tmp_path / "classes.sqlite"
    with closing(Registry(f"sqlite:///{path}", "model")) as registry:
        registry.add(entries(1))
        files = sorted(tmp_path.glob("classes.sqlite*"))
        assert len(files) > 1
        assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


# ---------------------------------------------------------------------- gone while in use
def removed(path):
    path.unlink()


def removed_with_log(path):
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def replaced(path):
    shutil.copy(path, path.with_name("copy"))
    os.replace(path.with_name("copy"), path)


def log_removed(path):
    path.with_name(path.name + "-wal").unlink()


def log_replaced(path):
    log = path.with_name(path.name + "-wal")
    shutil.copy(log, log.with_name("copy"))
    os.replace(log.with_name("copy"), log)


@pytest.mark.skipif(sys.platform == "win32", reason="open files cannot be removed there")
@pytest.mark.parametrize("act", [removed, removed_with_log, replaced, log_removed, log_replaced])
def test_a_change_is_refused_once_the_file_has_gone(tmp_path, make_served_on, act):
    path = tmp_path / "classes.sqlite"
    served = make_served_on(f"sqlite:///{path}")
    vector = served.current().model.class_attributes_[0]
    served.add([ClassDescription("kept", vector=vector)])
    act(path)
    for _ in range(2):
        with pytest.raises(RegistryError, match="was removed or replaced while it was in use"):
            served.add([ClassDescription("lost", vector=vector)])
        with pytest.raises(RegistryError, match="put it back, or start the service again"):
            served.remove(["kept"])
        assert not served.healthy()
        assert "removed or replaced" in served.trouble
    assert "kept" in served.current().names
    assert "lost" not in served.current().names
    if act is removed:
        assert not path.exists()  # and no empty one was made in its place


@pytest.mark.skipif(sys.platform == "win32", reason="open files cannot be removed there")
def test_a_file_that_goes_while_a_change_is_written_is_noticed(tmp_path):
    path = tmp_path / "classes.sqlite"
    with closing(Registry(f"sqlite:///{path}", "model")) as registry:
        registry.add(entries(1))

        def write():
            with registry.database.writing():
                replaced(path)

        with pytest.raises(RegistryError) as caught:
            write()
    assert caught.value.kind == "moved"


def test_a_file_that_comes_back_is_used_again(tmp_path):
    path = tmp_path / "classes.sqlite"
    with closing(Registry(f"sqlite:///{path}", "model")) as registry:
        registry.add(entries(1))
        path.rename(tmp_path / "elsewhere")
        with pytest.raises(RegistryError):
            registry.revision()
        (tmp_path / "elsewhere").rename(path)
        assert registry.remove(["class 0"]) == 2


# ---------------------------------------------------------------------- in memory
@pytest.mark.parametrize(
    "url",
    [
        "sqlite:///file:some?mode=memory&uri=true",
        "sqlite:///file:some?mode=memory&cache=shared&uri=true",
        "sqlite:///file::memory:?uri=true",
        "sqlite:///file:?uri=true",
        "sqlite:///file:/some?vfs=memdb&uri=true",
    ],
)
def test_a_registry_in_memory_is_refused_at_once(url):
    with pytest.raises(DataError, match=r"in memory would be lost .* sqlite:///FILE is expected"):
        Registry(url, "model")


# ---------------------------------------------------------------------- many writers
WRITER = """
import sys
import numpy as np
from concurrent.futures import ThreadPoolExecutor
from hgkt.serving.events import ClassEntry, add_events
from hgkt.serving.registry import ClassRegistry

registry = ClassRegistry(sys.argv[1], "model")
sys.stdin.readline()
name, n_threads, n_adds = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
def write(thread):
    for i in range(n_adds):
        entry = ClassEntry(f"{name} {thread} {i}", np.ones(3))
        registry.change(lambda table: (add_events(table, registry.folder, [entry]), []))
with ThreadPoolExecutor(n_threads) as pool:
    list(pool.map(write, range(n_threads)))
"""


@pytest.mark.endure
def test_many_writers_of_several_processes_all_get_their_turn(database, open_registry):
    command = [sys.executable, "-c", WRITER, database]
    processes = [
        subprocess.Popen([*command, f"process {i}", "16", "6"], stdin=subprocess.PIPE, text=True)
        for i in range(3)
    ]
    for process in processes:
        process.communicate("go\n", timeout=120)
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert open_registry().revision() == len(open_registry().table().entries) == 3 * 16 * 6
