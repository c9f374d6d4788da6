"""Several processes, processes that are killed, and disks that are full."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psycopg
import pytest
import sqlalchemy as sa
from tests.registries import Registry

from hgkt.language import ClassDescription
from hgkt.serving.database import RegistryError
from hgkt.serving.edition import model_identity
from hgkt.serving.live_model import ServedModel

pytestmark = pytest.mark.endure

# What a worker process does: add classes, and say of each call how it ended.
WORKER = """
import json, sys
import numpy as np
from hgkt.serving.events import ClassEntry, ClassExistsError, add_events
from hgkt.serving.registry import ClassRegistry

url, model_id, calls = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
width = int(sys.argv[4])
registry = ClassRegistry(url, model_id)
print("ready", flush=True)
sys.stdin.readline()
for names in calls:
    try:
        entries = [ClassEntry(name, np.full(width, float(len(name)))) for name in names]
        add = lambda table: (add_events(table, registry.folder, entries), [])
        print(json.dumps([registry.change(add).revision, names]), flush=True)
    except ClassExistsError:
        print(json.dumps([None, names]), flush=True)
"""


def start(url, calls, model_id="model", width=3):
    arguments = [sys.executable, "-c", WORKER, url, model_id, json.dumps(calls), str(width)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )


def go(*workers):
    """Wait until all are ready, then let them begin."""
    for worker in workers:
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()


def names(registry):
    return [entry.name for entry in registry.table().entries]


# ---------------------------------------------------------------------- several processes
def test_of_concurrent_adds_of_one_name_exactly_one_wins(open_registry, database):
    wanted = [[f"class {i}"] for i in range(30)]
    workers = [start(database, wanted) for _ in range(4)]  # they also race to make the tables
    go(*workers)
    outcomes = [
        json.loads(line)
        for worker in workers
        for line in worker.communicate()[0].split("\n")
        if line
    ]
    assert [worker.returncode for worker in workers] == [0] * 4
    won = [(revision, name) for revision, (name,) in outcomes if revision is not None]
    assert len(outcomes) == 4 * 30
    assert sorted(name for _, name in won) == sorted(name for (name,) in wanted)
    registry = open_registry()
    # Revisions are a count without gaps, and the order in which they were given out.
    assert [name for _, name in sorted(won)] == names(registry)
    assert sorted(revision for revision, _ in won) == list(range(1, 31))
    assert [event.revision for event in registry.whole_log()] == list(range(1, 31))


def test_a_class_of_another_process_appears_in_a_running_store(make_served, database, digits_model):
    reader = make_served(start=True)
    width = digits_model.class_attributes_.shape[1]
    worker = start(database, [["zebra"]], model_identity(digits_model), width)
    go(worker)
    worker.communicate()
    deadline = time.monotonic() + 60
    while "zebra" not in reader.current().model.classes_.tolist():
        assert time.monotonic() < deadline, "the class did not appear"
        time.sleep(0.01)


# ---------------------------------------------------------------------- kill -9
@pytest.mark.parametrize("n_kills", [3, pytest.param(40, marks=pytest.mark.slow)])
def test_what_was_acknowledged_survives_kill_9(open_registry, database, n_kills):
    acknowledged = []
    for kill in range(n_kills):
        calls = [[f"{kill}.{i}.{part}" for part in "abc"] for i in range(2000)]
        worker = start(database, calls)
        go(worker)
        for _ in range(3 + 7 * kill):  # at different moments, in the middle of a call
            acknowledged += json.loads(worker.stdout.readline())[1]
        worker.send_signal(signal.SIGKILL)
        # What was said before it died counts, and a line may be cut off.
        # `communicate` would pass over lines that came along with those read above.
        for line in worker.stdout.read().split("\n")[:-1]:
            acknowledged += json.loads(line)[1]
        assert worker.wait() == -signal.SIGKILL

        registry = open_registry()
        there = names(registry)
        assert set(acknowledged) <= set(there)
        # The call it died in is there as a whole or not at all.
        assert len(there) - len(acknowledged) in range(0, 3 * (kill + 1) + 1, 3)
        calls_there = {name.rsplit(".", 1)[0] for name in there}
        assert len(there) == 3 * len(calls_there)
        assert registry.revision() == len(calls_there)
        assert len(registry.whole_log()) == len(there)
        # It goes on as if nothing had happened.
    if database.startswith("sqlite"):
        path = database.removeprefix("sqlite:///")
        with contextlib.closing(sqlite3.connect(path)) as plain:
            assert plain.execute("PRAGMA integrity_check").fetchone() == ("ok",)


# ---------------------------------------------------------------------- full disks
@contextlib.contextmanager
def small_disk(size):
    """A disk of so many bytes, in memory."""
    folder = Path(tempfile.mkdtemp(prefix="hgkt-disk-"))
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0777", "tmpfs", str(folder)]
    done = shutil.which("mount") and subprocess.run(mount, capture_output=True, check=False)
    if not done or done.returncode:
        folder.rmdir()
        pytest.skip("a small disk cannot be mounted here; that takes the rights of root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
        folder.rmdir()


def fill(served, vector):
    """Add classes until there is no room; return how many there was room for."""
    done = 0

    def more():
        nonlocal done
        while done < 3000:
            served.add([ClassDescription(f"class {done}", vector=vector)])
            done += 1

    with pytest.raises(RegistryError, match="has no room left on its disk") as caught:
        more()
    assert caught.value.kind == "full"
    return done


def check_full(served, model, digits, free):
    """Fill the disk; everything but writing goes on; with room again, so does writing."""
    vector = model.class_attributes_[0]
    count = fill(served, vector)
    kept = served.current().model.classes_.tolist()
    X = digits.rows("test_seen")[0][:5]
    assert served.refresh().model.classes_.tolist() == kept
    assert np.isfinite(served.current().model.score_classes(X)).all()
    assert served.registry.revision() == served.current().revision == count
    free()
    served.add([ClassDescription("zebra", vector=vector)])
    assert served.current().model.classes_.tolist() == sorted([*kept, "zebra"])
    assert "zebra" in names(served.registry)


def test_full_disk_of_sqlite_is_told_and_survived(digits_model, digits):
    with small_disk(512 * 1024) as folder:
        ballast = folder / "ballast"
        ballast.write_bytes(bytes(128 * 1024))
        registry = Registry(f"sqlite:///{folder}/c.sqlite", model_identity(digits_model))
        served = ServedModel(digits_model, registry)
        check_full(served, digits_model, digits, ballast.unlink)
        served.close()
        # After a restart everything acknowledged is there.
        again = Registry(f"sqlite:///{folder}/c.sqlite", model_identity(digits_model))
        assert names(again) == served.current().model.unseen_classes_.tolist()[1:]
        again.close()


def test_full_sqlite_file_is_told_and_survived(tmp_path, digits_model, digits):
    registry = Registry(f"sqlite:///{tmp_path}/c.sqlite", model_identity(digits_model))
    pages = {"limit": 40}

    @sa.event.listens_for(registry.database.engine, "connect")
    def limited(connection, _record):
        connection.execute(f"PRAGMA max_page_count = {pages['limit']}")

    def free():
        pages["limit"] = 10_000
        registry.database.engine.dispose()

    registry.database.engine.dispose()
    served = ServedModel(digits_model, registry)
    check_full(served, digits_model, digits, free)
    served.close()


def test_full_disk_of_postgresql_is_told_and_survived(postgresql, digits_model, digits):
    with (
        small_disk(16 * 2**20) as folder,
        psycopg.connect(postgresql.get_uri(), autocommit=True) as operator,
    ):
        space = folder / "space"
        space.mkdir()
        if os.geteuid() == 0:
            shutil.chown(space, "pgserver")
        operator.execute(f"CREATE TABLESPACE small LOCATION '{space}'")
        operator.execute("CREATE DATABASE full_disk TABLESPACE small")
        registry = Registry(postgresql.get_uri("full_disk"), model_identity(digits_model))
        ballast = folder / "ballast"
        ballast.write_bytes(bytes(max(0, shutil.disk_usage(folder).free - 96 * 1024)))
        served = ServedModel(digits_model, registry)
        try:
            check_full(served, digits_model, digits, ballast.unlink)
        finally:
            served.close()
            operator.execute("DROP DATABASE full_disk WITH (FORCE)")
            operator.execute("DROP TABLESPACE small")
