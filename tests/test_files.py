"""Files and folders in one step: what is left after a crash at every point, and who waits."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hgkt import _files
from hgkt._files import (
    atomic_file,
    atomic_folder,
    file_sha256,
    files_sha256,
    locked,
    read_json,
    sha256,
    write_file,
)
from hgkt.exceptions import DataError, ModelFolderError

Patch = pytest.MonkeyPatch


class CrashError(Exception):
    """What no code expects."""


def contents(folder: Path) -> dict[str, str]:
    """Every file under a folder, hidden ones too."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


def full_disk(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def crash(*_: object, **__: object) -> None:
    raise CrashError


def replace_folder(path: Path, text: str = "new") -> None:
    with atomic_folder(path, replaces=lambda _: True) as scratch:
        (scratch / "deep").mkdir()
        (scratch / "deep" / "a.txt").write_text(text)


# ---------------------------------------------------------------------- files
def test_write_file_makes_folders_and_replaces_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "a.txt"
    assert write_file(path, "old") == path
    write_file(path, b"new")
    assert contents(tmp_path) == {"deep/er/a.txt": "new"}
    assert path.stat().st_mode & 0o777 == 0o644


def test_atomic_file_crash_in_the_block_leaves_the_old_file_and_no_scratch(tmp_path: Path) -> None:
    path = write_file(tmp_path / "a.txt", "old")

    def half() -> None:
        with atomic_file(path) as scratch:
            scratch.write_text("half")
            assert path.read_text() == "old"
            raise CrashError

    with pytest.raises(CrashError):
        half()
    assert contents(tmp_path) == {"a.txt": "old"}


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_atomic_file_where_the_disk_refuses_is_one_sentence(
    tmp_path: Path, monkeypatch: Patch, call: str
) -> None:
    path = write_file(tmp_path / "a.txt", "old")
    with monkeypatch.context() as patch:
        patch.setattr(os, call, full_disk)
        with pytest.raises(ModelFolderError, match=r"^cannot write .*a\.txt: No space left"):
            write_file(path, "new", ModelFolderError)
        with pytest.raises(DataError, match=r"No space left on device; buy a disk$"):
            write_file(path, "new", lambda sentence: DataError(f"{sentence}; buy a disk"))
    assert contents(tmp_path) == {"a.txt": "old"}


def test_atomic_file_crash_at_the_rename_leaves_the_old_file(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    path = write_file(tmp_path / "a.txt", "old")
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", crash)
        with pytest.raises(CrashError):
            write_file(path, "new")
    assert contents(tmp_path) == {"a.txt": "old"}


def test_atomic_file_reaches_the_disk_before_it_gets_its_name(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (done.append("fsync"), fsync(handle)))
    monkeypatch.setattr(os, "replace", lambda a, b: (done.append("replace"), replace(a, b)))
    write_file(tmp_path / "a.txt", "x")
    assert done == ["fsync", "replace", "fsync"]  # the file, its name, the folder's list of names


def test_atomic_file_replaces_behind_a_link(tmp_path: Path) -> None:
    write_file(tmp_path / "far" / "a.txt", "old")
    (tmp_path / "a.txt").symlink_to(tmp_path / "far" / "a.txt")
    write_file(tmp_path / "a.txt", "new")
    assert (tmp_path / "a.txt").is_symlink()
    assert (tmp_path / "far" / "a.txt").read_text() == "new"


# ---------------------------------------------------------------------- folders
def test_atomic_folder_takes_a_new_or_empty_place_and_no_other(tmp_path: Path) -> None:
    with atomic_folder(tmp_path / "deep" / "new") as scratch:
        (scratch / "a.txt").write_text("x")
    (tmp_path / "empty").mkdir()
    with atomic_folder(tmp_path / "empty") as scratch:
        (scratch / "a.txt").write_text("y")
    taken = "exists and is not empty; it is left alone, choose another path"
    for place in (tmp_path / "empty", tmp_path / "empty" / "a.txt"):
        with pytest.raises(DataError, match=taken), atomic_folder(place):
            pytest.fail("the block must not run")
    with (
        pytest.raises(ModelFolderError, match="is not a model folder"),
        atomic_folder(tmp_path / "empty", lambda _: False, ModelFolderError, "a model folder"),
    ):
        pytest.fail("the block must not run")
    assert contents(tmp_path) == {"deep/new/a.txt": "x", "empty/a.txt": "y"}
    assert (tmp_path / "empty").stat().st_mode & 0o777 == 0o755


def test_atomic_folder_replaces_whole_what_it_may_replace(tmp_path: Path) -> None:
    write_file(tmp_path / "m" / "old.txt", "old")
    replace_folder(tmp_path / "m")
    assert contents(tmp_path) == {"m/deep/a.txt": "new"}
    assert os.listdir(tmp_path) == ["m"]


@pytest.mark.parametrize("problem", [CrashError, KeyboardInterrupt])
def test_atomic_folder_crash_in_the_block_leaves_the_old_folder(
    tmp_path: Path, problem: type[BaseException]
) -> None:
    write_file(tmp_path / "m" / "old.txt", "old")

    def half() -> None:
        with atomic_folder(tmp_path / "m", lambda _: True) as scratch:
            (scratch / "half.txt").write_text("half")
            raise problem

    with pytest.raises(problem):
        half()
    assert contents(tmp_path) == {"m/old.txt": "old"}
    assert os.listdir(tmp_path) == ["m"]


@pytest.mark.parametrize("exchanges", [True, False])
@pytest.mark.parametrize("failure", [full_disk, crash])
def test_atomic_folder_crash_at_the_swap_leaves_the_old_folder(
    tmp_path: Path, monkeypatch: Patch, exchanges: bool, failure: object
) -> None:
    write_file(tmp_path / "m" / "old.txt", "old")
    if exchanges:
        monkeypatch.setattr(_files, "_exchange", failure)
    else:
        rename = os.rename

        def only_the_old(first: Path, second: Path) -> None:
            """Let the old folder be moved, there and back, and fail for the new one."""
            if "previous" in Path(first).name + Path(second).name:
                rename(first, second)
            else:
                failure()  # type: ignore[operator]

        monkeypatch.setattr(_files, "_exchange", lambda *_: False)
        monkeypatch.setattr(os, "rename", only_the_old)
    with pytest.raises((CrashError, DataError)):
        replace_folder(tmp_path / "m")
    assert contents(tmp_path) == {"m/old.txt": "old"}
    assert os.listdir(tmp_path) == ["m"]


def test_atomic_folder_works_where_folders_cannot_be_exchanged(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(_files, "_exchange", lambda *_: False)
    write_file(tmp_path / "m" / "old.txt", "old")
    write_file(tmp_path / ".m.previous" / "older.txt", "left by a crash")
    replace_folder(tmp_path / "m")
    assert contents(tmp_path) == {"m/deep/a.txt": "new"}
    assert os.listdir(tmp_path) == ["m"]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no renameat2")
@pytest.mark.endure
def test_atomic_folder_is_never_missing_while_it_is_replaced(tmp_path: Path) -> None:
    write_file(tmp_path / "m" / "deep" / "a.txt", "first")
    look = (
        "import sys, pathlib\n"
        "path, stop = map(pathlib.Path, sys.argv[1:])\n"
        "print('ready', flush=True)\n"
        "while not stop.exists():\n"
        "    path.stat()\n"  # raises where there is no folder by that name
    )
    watcher = subprocess.Popen(
        [sys.executable, "-c", look, tmp_path / "m", tmp_path / "stop"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert watcher.stdout is not None
    assert watcher.stdout.readline() == "ready\n"
    for number in range(50):
        replace_folder(tmp_path / "m", str(number))
    (tmp_path / "stop").touch()
    _, complaint = watcher.communicate(timeout=60)
    assert (watcher.returncode, complaint) == (0, "")


def test_atomic_folder_where_the_disk_refuses_is_one_sentence(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    write_file(tmp_path / "m" / "old.txt", "old")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full_disk)
        with pytest.raises(DataError, match=r"cannot write .*m: No space left on device"):
            replace_folder(tmp_path / "m")
    assert contents(tmp_path) == {"m/old.txt": "old"}
    with pytest.raises(DataError, match=r"cannot write .*a\.txt/x: "):
        replace_folder(write_file(tmp_path / "a.txt", "") / "x")


def test_atomic_folder_is_replaced_behind_a_link(tmp_path: Path) -> None:
    write_file(tmp_path / "far" / "m" / "old.txt", "old")
    (tmp_path / "m").symlink_to(tmp_path / "far" / "m")
    replace_folder(tmp_path / "m")
    assert (tmp_path / "m").is_symlink()
    assert contents(tmp_path / "far") == {"m/deep/a.txt": "new"}


# ---------------------------------------------------------------------- locks
HOLD = """
import sys, time
from pathlib import Path
from hgkt._files import locked
folder = Path(sys.argv[1])
with locked(folder / "m"):
    (folder / "held").touch()
    while not (folder / "release").exists():
        time.sleep(0.01)
    (folder / "done").touch()
"""
COUNT = """
import sys
from pathlib import Path
from hgkt._files import locked
counter = Path(sys.argv[1]) / "n"
for _ in range(20):
    with locked(counter, waiting=lambda: None):
        counter.write_text(str(int(counter.read_text()) + 1))
"""


def start(code: str, folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code, folder])


@pytest.mark.endure
def test_locked_makes_a_second_process_wait_or_says_why_not(tmp_path: Path) -> None:
    holder = start(HOLD, tmp_path)
    try:
        while not (tmp_path / "held").exists():
            assert holder.poll() is None
            time.sleep(0.01)
        with pytest.raises(DataError, match="is being changed by another process"):
            locked(tmp_path / "m").__enter__()
        with pytest.raises(ModelFolderError, match=r"^come back later$"):
            locked(tmp_path / "m", ModelFolderError, busy="come back later").__enter__()
        told: list[bool] = []

        def waiting() -> None:
            told.append((tmp_path / "done").exists())
            (tmp_path / "release").touch()

        with locked(tmp_path / "m", waiting=waiting):
            assert (tmp_path / "done").exists()
        assert told == [False]
    finally:
        (tmp_path / "release").touch()
        assert holder.wait(timeout=60) == 0
    assert not list(tmp_path.glob(".*"))


@pytest.mark.endure
def test_locked_lets_one_process_at_a_time_change_a_file(tmp_path: Path) -> None:
    (tmp_path / "n").write_text("0")
    for process in [start(COUNT, tmp_path) for _ in range(4)]:
        assert process.wait(timeout=60) == 0
    assert (tmp_path / "n").read_text() == "80"
    assert os.listdir(tmp_path) == ["n"]


def test_locked_where_no_lock_can_be_had_is_one_sentence(tmp_path: Path) -> None:
    with (
        pytest.raises(DataError, match=r"a\.txt/m cannot be changed: "),
        locked(write_file(tmp_path / "a.txt", "") / "m"),
    ):
        pytest.fail("the block must not run")


# ---------------------------------------------------------------------- digests and JSON
def test_digests_are_those_of_the_bytes(tmp_path: Path) -> None:
    one, two = write_file(tmp_path / "b", "é" * 10**6), write_file(tmp_path / "a", b"\x00")
    digests = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in (one, two)}
    assert file_sha256(one) == digests[one] == sha256("é" * 10**6)
    assert files_sha256([two]) == digests[two]
    joined = hashlib.sha256((digests[two] + digests[one]).encode()).hexdigest()
    assert files_sha256([one, two]) == files_sha256([two, one]) == joined


def test_read_json_returns_an_object_or_one_sentence(tmp_path: Path) -> None:
    assert read_json(write_file(tmp_path / "a.json", '{"a": [1]}')) == {"a": [1]}
    for content, sentence in [(b"{", "is not valid JSON"), (b"[1]", "must hold one JSON object"),
                              (b"\xff", "is not valid JSON")]:  # fmt: skip
        with pytest.raises(ModelFolderError, match=f"a.json {sentence}"):
            read_json(write_file(tmp_path / "a.json", content), ModelFolderError)
    with pytest.raises(DataError, match=r"b\.json does not exist"):
        read_json(tmp_path / "b.json")


# ---------------------------------------------------------------------- what killed saves leave
SAVE = """
import os, sys, time
from pathlib import Path
from hgkt._files import atomic_file, atomic_folder
folder = Path(sys.argv[1])
with atomic_folder(folder / "m", lambda _: True) as scratch, atomic_file(folder / "a") as file:
    (scratch / "half.txt").write_text("half")
    file.write_text("half")
    (folder / "ready").touch()
    time.sleep(60)
"""


@pytest.mark.endure
def test_scratch_of_a_killed_save_is_swept_and_that_of_a_living_one_is_not(tmp_path: Path) -> None:
    saving = start(SAVE, tmp_path)
    try:
        while not (tmp_path / "ready").exists():
            assert saving.poll() is None
            time.sleep(0.01)
        (tmp_path / "ready").unlink()
        foreign = write_file(tmp_path / ".m.notes", "mine")
        replace_folder(tmp_path / "m", "while another one saves")
        left = {name for name in os.listdir(tmp_path) if name.endswith(".hgkt-part")}
        assert len(left) == 2
    finally:
        saving.kill()
        saving.wait()
    replace_folder(tmp_path / "m", "after it was killed")
    assert sorted(os.listdir(tmp_path)) == [".m.notes", "m"]
    assert foreign.read_text() == "mine"


def test_atomic_folder_reaches_the_disk_with_its_names(tmp_path: Path, monkeypatch: Patch) -> None:
    flushed: list[str] = []
    flush = _files._flush
    monkeypatch.setattr(_files, "_flush", lambda path: (flushed.append(str(path)), flush(path)))
    replace_folder(tmp_path / "new" / "m")
    scratch = next(name for name in flushed if name.endswith(".hgkt-part"))
    assert flushed[0] == str(tmp_path)  # the name of the folder that had to be made
    assert {f"{scratch}/deep/a.txt", f"{scratch}/deep", scratch} <= set(flushed)
    assert flushed[-1] == str(tmp_path / "new")  # after the rename


def test_read_json_that_is_too_deep_is_one_sentence(tmp_path: Path) -> None:
    write_file(tmp_path / "a.json", "[" * 10**6)
    with pytest.raises(DataError, match="is not valid JSON: it is nested too deeply"):
        read_json(tmp_path / "a.json")
