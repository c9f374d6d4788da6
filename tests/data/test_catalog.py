"""Downloads against a real server on this machine that can be told to misbehave."""

from __future__ import annotations

import hashlib
import io
import re
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from hgkt.data import download, download_dataset
from hgkt.data.catalog import extract_folder
from hgkt.exceptions import DownloadError, UnknownNameError

CONTENT = bytes(range(256)) * 4096  # 1 MiB
SHA = hashlib.sha256(CONTENT).hexdigest()


@dataclass
class Server:
    """What the server has, how it behaves, and what it was asked."""

    address: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    ranges: bool = True
    etag: str | None = '"one"'
    break_after: dict[str, int] = field(default_factory=dict)  # path -> bytes, once
    asked: list[tuple[str, str | None]] = field(default_factory=list)

    def url(self, path: str) -> str:
        return self.address + path


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.asked.append((self.path, self.headers.get("Range")))
            body = state.files.get(self.path)
            if body is None:
                self.send_error(404)
                return
            start, status = 0, 200
            match = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
            unchanged = self.headers.get("If-Range") in (None, state.etag)
            if state.ranges and match and unchanged:
                start, status = int(match[1]), 206
            if start >= len(body) and status == 206:
                self.send_error(416)
                return
            self.send_response(status)
            if state.etag:
                self.send_header("ETag", state.etag)
            if status == 206:
                self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
            self.send_header("Content-Length", str(len(body) - start))
            self.end_headers()
            end = state.break_after.pop(self.path, len(body))
            self.wfile.write(body[start:end])

        def log_message(self, *args: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.address = f"http://127.0.0.1:{http.server_address[1]}"
    thread = threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield state
    http.shutdown()
    http.server_close()
    thread.join()


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_download_whole_file_reports_progress(server: Server, tmp_path: Path) -> None:
    server.files["/f"] = CONTENT
    seen: list[tuple[int, int | None]] = []
    path = download(
        server.url("/f"),
        tmp_path / "new" / "f",
        SHA,
        lambda done, total: seen.append((done, total)),
    )
    assert path.read_bytes() == CONTENT
    assert leftovers(path.parent) == ["f"]
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_download_leaves_a_good_file_alone_and_replaces_a_bad_one(
    server: Server, tmp_path: Path
) -> None:
    server.files["/f"] = CONTENT
    target = tmp_path / "f"
    target.write_bytes(CONTENT)
    download(server.url("/f"), target, SHA)
    assert server.asked == []
    target.write_bytes(b"old")
    download(server.url("/f"), target, SHA)
    assert target.read_bytes() == CONTENT


@pytest.mark.parametrize("sha", [None, SHA])
def test_download_resumes_where_it_stopped(sha: str | None, server: Server, tmp_path: Path) -> None:
    server.files["/f"] = CONTENT
    server.break_after["/f"] = 600_000
    with pytest.raises(DownloadError, match="broke off after 600000 of 1048576 bytes"):
        download(server.url("/f"), tmp_path / "f", sha)
    assert not (tmp_path / "f").exists()
    assert download(server.url("/f"), tmp_path / "f", sha).read_bytes() == CONTENT
    assert server.asked[-1] == ("/f", "bytes=600000-")
    assert leftovers(tmp_path) == ["f"]


def test_download_starts_over_when_the_file_changed(server: Server, tmp_path: Path) -> None:
    server.files["/f"] = b"x" * len(CONTENT)
    server.break_after["/f"] = 600_000
    with pytest.raises(DownloadError):
        download(server.url("/f"), tmp_path / "f")
    server.files["/f"], server.etag = CONTENT, '"two"'
    assert download(server.url("/f"), tmp_path / "f").read_bytes() == CONTENT


def test_download_starts_over_without_a_validator_or_checksum(
    server: Server, tmp_path: Path
) -> None:
    server.etag = None
    server.files["/f"] = CONTENT
    server.break_after["/f"] = 600_000
    with pytest.raises(DownloadError):
        download(server.url("/f"), tmp_path / "f")
    assert download(server.url("/f"), tmp_path / "f").read_bytes() == CONTENT
    assert server.asked[-1] == ("/f", None)


def test_download_from_a_server_without_ranges(server: Server, tmp_path: Path) -> None:
    server.ranges = False
    server.files["/f"] = CONTENT
    server.break_after["/f"] = 600_000
    with pytest.raises(DownloadError):
        download(server.url("/f"), tmp_path / "f", SHA)
    assert download(server.url("/f"), tmp_path / "f", SHA).read_bytes() == CONTENT


def test_download_breaks_midway_then_second_mirror_sends_it_all(
    server: Server, tmp_path: Path
) -> None:
    server.files |= {"/a": CONTENT, "/b": CONTENT}
    server.break_after["/a"] = 600_000
    path = download([server.url("/a"), server.url("/b")], tmp_path / "f", SHA)
    assert path.read_bytes() == CONTENT
    assert server.asked == [("/a", None), ("/b", None)]
    assert leftovers(tmp_path) == ["f"]


def test_download_pieces_of_different_files_are_never_joined(
    server: Server, tmp_path: Path
) -> None:
    server.files |= {"/a": b"x" * len(CONTENT), "/b": CONTENT}
    for sha in (None, SHA):
        server.break_after["/a"] = 600_000
        target = tmp_path / f"f{sha}"
        path = download([server.url("/a"), server.url("/b")], target, sha)
        assert path.read_bytes() == CONTENT


def test_download_goes_on_after_a_complete_part(server: Server, tmp_path: Path) -> None:
    server.files["/f"] = CONTENT
    server.break_after["/f"] = 600_000
    with pytest.raises(DownloadError):
        download(server.url("/f"), tmp_path / "f")
    (tmp_path / "f.part").write_bytes(CONTENT)
    assert download(server.url("/f"), tmp_path / "f").read_bytes() == CONTENT


def test_download_wrong_checksum_tries_the_next_and_keeps_nothing(
    server: Server, tmp_path: Path
) -> None:
    server.files |= {"/a": b"wrong", "/b": CONTENT}
    with pytest.raises(DownloadError, match="a file with checksum 8810ad58") as info:
        download(server.url("/a"), tmp_path / "f", SHA)
    assert SHA[:12] in str(info.value)
    assert leftovers(tmp_path) == []
    urls = [server.url("/a"), server.url("/b")]
    assert download(urls, tmp_path / "f", SHA.upper()).read_bytes() == CONTENT


def test_download_that_fails_everywhere_says_what_each_mirror_said(
    server: Server, tmp_path: Path
) -> None:
    urls = [server.url("/a"), server.url("/b"), "http://127.0.0.1:1/c", "ftp://x/d"]
    with pytest.raises(DownloadError) as info:
        download(urls, tmp_path / "f")
    message = str(info.value)
    assert message.count("404 Not Found") == 2
    assert "refused" in message
    assert "ftp://x/d said: not an http or https address" in message
    assert f"put it at {tmp_path / 'f'}" in message
    assert leftovers(tmp_path) == []


def test_download_gives_up_on_a_silent_server(tmp_path: Path) -> None:
    import socket

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/f"
        with pytest.raises(DownloadError, match="timed out"):
            download(url, tmp_path / "f", timeout=0.2)


def archive(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, data in members.items():
            file.writestr(name, data)
    return buffer.getvalue()


MEMBERS = {
    "xlsa17/data/CUB/att_splits.mat": b"splits",
    "xlsa17/data/CUB/res101.mat": b"features",
    "xlsa17/data/AWA2/res101.mat": b"other",
    "__MACOSX/xlsa17/data/CUB/._res101.mat": b"junk",
    "xlsa17/data/CUB/../../../../evil.txt": b"evil",
    "/abs/CUB/evil.txt": b"evil",
}


def test_download_dataset_unpacks_only_the_wanted_folder(server: Server, tmp_path: Path) -> None:
    server.files["/xlsa17.zip"] = archive(MEMBERS)
    mirrors = [server.url("/dead.zip"), server.url("/xlsa17.zip")]
    folder = download_dataset("cub", tmp_path / "root", mirrors=mirrors)
    assert folder == tmp_path / "root" / "CUB"
    assert leftovers(folder) == ["att_splits.mat", "res101.mat"]
    assert (folder / "res101.mat").read_bytes() == b"features"
    assert leftovers(tmp_path) == ["root"]
    n_asked = len(server.asked)
    assert download_dataset("CUB", tmp_path / "root", mirrors=mirrors) == folder
    assert len(server.asked) == n_asked


def test_download_dataset_passes_over_a_page_in_place_of_the_archive(
    server: Server, tmp_path: Path
) -> None:
    server.files |= {"/a.zip": b"<html>moved</html>", "/b.zip": archive(MEMBERS)}
    mirrors = [server.url("/a.zip"), server.url("/b.zip")]
    assert (download_dataset("CUB", tmp_path, mirrors=mirrors) / "res101.mat").is_file()


def test_download_dataset_unknown_name_lists_the_known(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="SUN, CUB, AWA1, AWA2, APY, FLO"):
        download_dataset("ImageNet", tmp_path)


def test_download_dataset_without_any_mirror_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HGKT_MIRRORS", raising=False)
    with pytest.raises(DownloadError, match="no mirror is known"):
        download_dataset("FLO", tmp_path)


def test_extract_folder_names_what_the_archive_holds(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(archive(MEMBERS))
    with pytest.raises(DownloadError, match=r"no folder SUN; it holds: .*AWA2, CUB"):
        extract_folder(path, "SUN", tmp_path / "SUN")
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DownloadError, match="not a usable zip archive"):
        extract_folder(path, "CUB", tmp_path / "CUB")
    assert leftovers(tmp_path) == ["x.zip"]
