"""Downloads that survive dead links and broken transfers: mirrors, resume, checksum."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from hgkt._files import file_sha256
from hgkt.exceptions import DownloadError

DownloadProgress = Callable[[int, int | None], None]
"""Called as ``progress(bytes so far, bytes in all or None)``."""

_CHUNK_BYTES = 2**18


@dataclass(frozen=True)
class _Note:
    """What is known of the file that a .part is the beginning of."""

    url: str
    validator: str | None
    total: int | None


class _MirrorError(Exception):
    """What one mirror said."""


def download(
    urls: str | Sequence[str],
    target: str | Path,
    sha256: str | None = None,
    progress: DownloadProgress | None = None,
    timeout: float = 30.0,
    complaint: Callable[[Path], str | None] | None = None,
) -> Path:
    """Fetch a file from the first mirror that has it.

    A transfer that breaks off leaves ``<target>.part`` and is taken up where it stopped: from the
    same mirror if the file there is unchanged, from another mirror if `sha256` can tell whether
    the pieces fit. The file gets its name only when it is whole.

    Parameters
    ----------
    urls : str or sequence of str
        Addresses (http or https), tried in order.
    target : path
        Where the file goes. One that is there already, with the right checksum where one is
        given, is left as it is.
    sha256 : str, optional
        Checksum expected, in hexadecimal.
    progress : callable, optional
        Called with the bytes so far and the bytes in all (None: unknown).
    timeout : float
        Seconds without an answer after which a mirror is given up.
    complaint : callable, optional
        Looks at the finished file and says what is wrong with it, or returns None. Dead links
        often answer with a page instead of the file.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    DownloadError
        When every mirror failed; it says how each did and where to put the file by hand.
    """
    target = Path(target)
    expected = sha256.lower() if sha256 else None
    if target.is_file() and expected in (None, file_sha256(target)):
        return target
    mirrors = [urls] if isinstance(urls, str) else list(urls)
    said = []
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for url in mirrors:
            try:
                _fetch(url, target, expected, progress, timeout, complaint)
                return target
            except _MirrorError as error:
                said.append(f"{url} said: {error}")
    except OSError as error:
        raise DownloadError(f"cannot write {target}: {error.strerror or error}") from error
    answers = "; ".join(said) or "no mirror is known"
    raise DownloadError(
        f"{target.name} could not be downloaded ({answers}); fetch it by other means and put it "
        f"at {target}, or name another mirror"
    )


def _fetch(
    url: str,
    target: Path,
    expected: str | None,
    progress: DownloadProgress | None,
    timeout: float,
    complaint: Callable[[Path], str | None] | None,
) -> None:
    """Complete the .part from one mirror, check it and rename it."""
    if not re.match(r"https?://", url):
        raise _MirrorError("not an http or https address")
    part, note_path = _part(target), _note_path(target)
    resumed = _transfer(url, target, expected, progress, timeout)
    if expected is not None:
        found = file_sha256(part)
        if found != expected and resumed:
            # The beginning may stem from another file: once more, from the start.
            part.unlink()
            _transfer(url, target, expected, progress, timeout)
            found = file_sha256(part)
        wrong = None if found == expected else f"a file with checksum {found[:12]}…"
    else:
        wrong = complaint(part) if complaint is not None else None
    note_path.unlink(missing_ok=True)
    if wrong:
        part.unlink()
        raise _MirrorError(wrong if expected is None else f"{wrong}, expected {expected[:12]}…")
    os.replace(part, target)


def _transfer(
    url: str,
    target: Path,
    expected: str | None,
    progress: DownloadProgress | None,
    timeout: float,
) -> bool:
    """Fetch what the .part lacks; return whether it was continued rather than begun."""
    part = _part(target)
    offset, headers = _resume_point(url, target, expected)
    try:
        with urlopen(Request(url, headers=headers), timeout=timeout) as response:
            offset, total = _agreed_range(response, offset)
            note = _Note(url, _validator(response), total)
            _note_path(target).write_text(json.dumps(asdict(note)))
            done = _append(response, part, offset, total, progress)
    except HTTPError as error:
        error.close()
        if error.code == 416 and offset:
            # Nothing is left to send, or the file there is shorter: the whole file settles it.
            part.unlink(missing_ok=True)
            return _transfer(url, target, expected, progress, timeout)
        raise _MirrorError(f"{error.code} {error.reason}") from error
    except (URLError, HTTPException, TimeoutError, ConnectionError, ValueError) as error:
        raise _MirrorError(
            str(getattr(error, "reason", None) or error or type(error).__name__)
        ) from error
    if total is not None and done != total:
        raise _MirrorError(f"the transfer broke off after {done} of {total} bytes")
    return offset > 0


def _resume_point(url: str, target: Path, expected: str | None) -> tuple[int, dict[str, str]]:
    """Return how much of the .part may be kept for `url` and the headers that ask for the rest."""
    headers = {"User-Agent": "hgkt", "Accept-Encoding": "identity"}
    part = _part(target)
    offset = part.stat().st_size if part.is_file() else 0
    note = _read_note(target)
    if offset == 0 or note is None:
        return 0, headers
    if note.url == url and note.validator:
        headers["If-Range"] = note.validator
    elif expected is None:
        return 0, headers
    headers["Range"] = f"bytes={offset}-"
    return offset, headers


def _agreed_range(response: Any, offset: int) -> tuple[int, int | None]:
    """Return where the answer starts and the size of the whole file."""
    if response.status == 206:
        match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
        if match is None or int(match[1]) != offset:
            raise _MirrorError("a piece that was not asked for")
        return offset, None if match[2] == "*" else int(match[2])
    length = response.headers.get("Content-Length")
    return 0, int(length) if length is not None else None


def _append(
    response: Any, part: Path, offset: int, total: int | None, progress: DownloadProgress | None
) -> int:
    done = offset
    with open(part, "r+b" if offset else "wb") as file:
        file.seek(offset)
        file.truncate()
        while chunk := _read(response):
            file.write(chunk)
            done += len(chunk)
            if progress is not None:
                progress(done, total)
        file.flush()
        os.fsync(file.fileno())
    return done


def _read(response: Any) -> bytes:
    """Read on; an error of the network must not pass for one of the disk."""
    try:
        return bytes(response.read(_CHUNK_BYTES))
    except OSError as error:
        raise _MirrorError(f"the transfer broke off ({error.strerror or error})") from error


def _validator(response: Any) -> str | None:
    etag = response.headers.get("ETag")
    if etag and not etag.startswith("W/"):
        return str(etag)
    modified = response.headers.get("Last-Modified")
    return str(modified) if modified else None


def _part(target: Path) -> Path:
    return target.with_name(target.name + ".part")


def _note_path(target: Path) -> Path:
    return target.with_name(target.name + ".part.json")


def _read_note(target: Path) -> _Note | None:
    try:
        return _Note(**json.loads(_note_path(target).read_text()))
    except (OSError, ValueError, TypeError, RecursionError):
        return None
