"""Requests that once took a service down, each with the statuses that are right for it.

Sizes are those of the attack; ``scale`` makes all of them smaller.
"""

from __future__ import annotations

import io
import itertools
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial

from fuzzing.service import JSON, KEY, Service, status_of

MB = 1_000_000
OCTETS = "application/octet-stream"
Attack = Callable[[Service, float], Iterator[int]]
ATTACKS: dict[str, tuple[Attack, frozenset[int]]] = {}
QUEUED: set[str] = set()
"""Attacks of strangers on the queues of a model of 5,000 classes; rows and changes must pass."""
GONE = 0  # the connection was closed without an answer


def attack(*statuses: int, queued: bool = False) -> Callable[[Attack], Attack]:
    """Register an attack; it yields the statuses that it was answered with.

    Parameters
    ----------
    *statuses : int
        Those that are right for it.
    queued : bool
        Whether single rows and keyed changes are timed while it runs.
    """

    def register(function: Attack) -> Attack:
        ATTACKS[function.__name__] = function, frozenset(statuses)
        if queued:
            QUEUED.add(function.__name__)
        return function

    return register


def _fill(piece: bytes, n_bytes: float) -> bytes:
    return piece * max(1, int(n_bytes / len(piece)))


def _row(number: bytes, service: Service) -> bytes:
    return b"[" + b",".join([number] * service.n_features) + b"]"


def _head(path: str, kind: str, n_bytes: int) -> bytes:
    """Return what stands before a body that is sent by hand."""
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Type: {kind}"]
    return "\r\n".join([*lines, f"Content-Length: {n_bytes}", "\r\n"]).encode()


# ---------------------------------------------------------------------- bodies
@attack(413, 422)
def rows_of_strings(service: Service, scale: float) -> Iterator[int]:
    """Rows in which every number is a mistake."""
    row = _row(b'"a"', service) + b","
    for size in (8, 16, 60):
        rows = _fill(row, size * MB * scale)
        yield service.post("/v1/predict", b'{"features":[' + rows + b"[]]}")


@attack(413, 422)
def empty_rows(service: Service, scale: float) -> Iterator[int]:
    """Rows without numbers."""
    yield service.post("/v1/predict", b'{"features":[' + _fill(b"[],", 60 * MB * scale) + b"[]]}")


@attack(413, 422)
def endless_row(service: Service, scale: float) -> Iterator[int]:
    """One row of tens of millions of numbers, of one number, of blanks."""
    for piece in (b"1,", b"1", b" "):
        body = b'{"features":[[' + _fill(piece, 60 * MB * scale) + b"1]]}"
        yield service.post("/v1/predict", body)


@attack(200, 413)
def honest_rows(service: Service, scale: float) -> Iterator[int]:
    """As many rows as are accepted, and more."""
    row = _row(b"0.5", service) + b","
    for size in (10, 60):
        rows = _fill(row, size * MB * scale)[:-1]
        yield service.post("/v1/predict", b'{"features":[' + rows + b"]}")


@attack(413, 422)
def deep_json(service: Service, scale: float) -> Iterator[int]:
    """Brackets in brackets."""
    for piece in (b"[", b'{"features":'):
        yield service.post("/v1/predict", _fill(piece, 60 * MB * scale))
        yield service.post("/v1/classes", _fill(piece, 7 * MB * scale), key=True)


@attack(413, 422)
def endless_among(service: Service, scale: float) -> Iterator[int]:
    """Candidates without end."""
    names = _fill(b'"",', 60 * MB * scale)
    yield service.post("/v1/predict", b'{"among":[' + names + b'""],"features":[[1]]}')
    row = _row(b"1", service)
    yield service.post("/v1/predict", b'{"features":[' + row + b'],"among":[' + names + b'""]}')


@attack(401, 413)
def class_without_key(service: Service, scale: float) -> Iterator[int]:
    """Forty-eight megabytes of classes from somebody who may not add any."""
    for size in (5, 48):
        body = b'{"classes":[' + _fill(b'{"name":"x","vector":[1]},', size * MB * scale) + b"{}]}"
        yield service.post("/v1/classes", body)


@attack(413, 422)
def unknown_keys(service: Service, scale: float) -> Iterator[int]:
    """Megabytes of keys that no class has."""
    for size in (7, 10):
        n_keys = int(size * MB * scale / 12)
        keys = b",".join(b'"k%07d":1' % number for number in range(n_keys))
        for start in (b'{"classes":[{"name":"x",', b'{"classes":[{"name":"x","attributes":{', b"{"):
            yield service.post("/v1/classes", start + keys + b"}" * start.count(b"{"), key=True)


@attack(413, 422)
def endless_classes(service: Service, scale: float) -> Iterator[int]:
    """More classes and longer vectors than a model has use for."""
    pieces = b'{"name":"x","vector":[1]},', b"{},", b'{"name":"' + b"x" * 1000 + b'"},'
    for piece in pieces:
        yield service.post("/v1/classes", b'{"classes":[' + _fill(piece, 7 * MB * scale), key=True)
    vector = b'{"classes":[{"name":"x","vector":[' + _fill(b"1,", 7 * MB * scale) + b"1]}]}"
    yield service.post("/v1/classes", vector, key=True)


@attack(400, 409, 413, 422)
def forms(service: Service, scale: float) -> Iterator[int]:
    """Forms of a hundred thousand parts, of endless headers, of nearly boundaries."""
    kind = "multipart/form-data; boundary=b"
    part = b'--b\r\nContent-Disposition: form-data; name="images"; filename="a"\r\n\r\nx\r\n'
    field = b'--b\r\nContent-Disposition: form-data; name="f"\r\n\r\nx\r\n'
    head = b"--b\r\nX: "
    for piece, start in ((part, b""), (field, b""), (b"x", head), (b"\r\n--", part), (b"\r", part)):
        body = start + _fill(piece, 60 * MB * scale)
        yield service.post("/v1/predict/image", body, kind)


@attack(408, queued=True)
def announced_bodies(service: Service, scale: float) -> Iterator[int]:
    """Checks without a key that announce much and send one byte."""
    start = _head("/v1/classes/check", JSON, 8 * MB - 1) + b"{"
    with ExitStack() as stack:
        waiting = [stack.enter_context(service.connect()) for _ in range(24)]
        for connection in waiting:
            connection.sendall(start)
        yield from (status_of(connection) for connection in waiting)


# ---------------------------------------------------------------------- queues
@attack(200, 503, queued=True)
def earlier_revisions(service: Service, scale: float) -> Iterator[int]:
    """Strangers who ask for one revision after the other."""
    row, numbers = bytes(4 * service.n_features), itertools.count()
    newest = json.loads(service.call("GET", "/v1/model")[1])["revision"]

    def ask() -> int:
        return service.post(f"/v1/predict?revision={next(numbers) % newest}", row, OCTETS)

    yield from _together(ask, 16, scale)


@attack(200, 503, queued=True)
def costly_rows(service: Service, scale: float) -> Iterator[int]:
    """Sixty strangers who want a thousand classes for each of 240 rows."""
    body = bytes(4 * service.n_features * 240)
    yield from _together(partial(service.post, "/v1/predict?top_k=1000", body, OCTETS), 60, scale)


@attack(200, 413, 503, queued=True)
def costly_checks(service: Service, scale: float) -> Iterator[int]:
    """Strangers who have as many classes checked as there may be, and more."""
    n_attributes = json.loads(service.call("GET", "/v1/model")[1])["n_attributes"]
    new = [{"name": f"new {i}", "vector": _vector(i, n_attributes)} for i in range(1000)]
    yield service.post("/v1/classes/check", json.dumps({"classes": new}))
    body = json.dumps({"classes": new[:100]})
    yield from _together(partial(service.post, "/v1/classes/check", body), 8, scale)


def _together(ask: Callable[[], int], n_clients: int, scale: float) -> list[int]:
    """Ask from many threads for a while; return the statuses."""
    end, answers = time.monotonic() + 20 * max(scale, 0.1), []

    def run() -> None:
        while time.monotonic() < end:
            answers.append(ask())

    with ThreadPoolExecutor(n_clients) as pool:
        for _ in range(n_clients):
            pool.submit(run)
    return answers


@contextmanager
def _many_classes(service: Service, n_classes: int) -> Iterator[None]:
    """Add classes in changes of a thousand at most, and go back when it is over."""
    card = json.loads(service.call("GET", "/v1/model")[1])
    vectors = [_vector(number, card["n_attributes"]) for number in range(n_classes)]
    new = [{"name": f"many {i}", "vector": vector} for i, vector in enumerate(vectors)]
    step = max(1, min(1000, n_classes // 5))
    for start in range(0, n_classes, step):
        body = json.dumps({"classes": new[start : start + step]})
        if service.post("/v1/classes", body, key=True) != 201:
            raise RuntimeError("the classes of an attack were not taken")
    yield
    body = json.dumps({"revision": card["revision"]})
    if service.post("/v1/rollback", body, key=True) != 200:
        raise RuntimeError("the classes of an attack could not be taken back")


def _vector(number: int, n_attributes: int) -> list[float]:
    return [(number * 0.618 + place * 0.382) % 1.0 for place in range(n_attributes)]


@contextmanager
def _bystander(service: Service) -> Iterator[dict[str, list[float]]]:
    """Send one row after the other, and a class that comes and goes, while an attack runs.

    Yields how many milliseconds each row and change took; infinity where it was refused.
    """
    over = threading.Event()
    taken: dict[str, list[float]] = {"row_ms": [], "change_ms": []}

    def measure(kind: str, send: Callable[[], int]) -> None:
        start = time.monotonic()
        good = send() in (200, 201)
        taken[kind].append(1000 * (time.monotonic() - start) if good else float("inf"))

    def predict() -> None:
        row = bytes(4 * service.n_features)
        measure("row_ms", lambda: service.post("/v1/predict", row, OCTETS))

    def change() -> None:
        changes = _change_classes(service)
        for _ in range(2):  # a class comes, and goes
            measure("change_ms", lambda: next(changes))

    def repeat(work: Callable[[], None]) -> None:
        work()
        while not over.wait(0.2):
            work()

    with ThreadPoolExecutor(2) as pool:
        beside = [pool.submit(repeat, work) for work in (predict, change)]
        try:
            yield taken
        finally:
            over.set()
            for work in beside:
                work.result()


# ---------------------------------------------------------------------- images
def _png(width: int, height: int, mode: str = "L") -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.new(mode, (width, height)).save(buffer, "PNG", compress_level=9)
    return buffer.getvalue()


def _form(contents: list[bytes]) -> tuple[bytes, str]:
    head = b'--b\r\nContent-Disposition: form-data; name="images"; filename="a.png"\r\n\r\n'
    return b"".join(head + each + b"\r\n" for each in contents) + b"--b--\r\n", (
        "multipart/form-data; boundary=b"
    )


@attack(200, 409, 413)
def many_large_images(service: Service, scale: float) -> Iterator[int]:
    """Sixty-four black pictures of 49 megapixels, small as files; and one row meanwhile."""
    side = int(7000 * scale**0.5)
    black = _png(side, side)
    row = b"\0" * (4 * service.n_features)
    with ThreadPoolExecutor(1) as pool:
        for n_images in (64, 4):
            asked = pool.submit(service.post, "/v1/predict/image", *_form([black] * n_images))
            while not asked.done():
                yield service.post("/v1/predict", row, OCTETS)
            yield asked.result()


@attack(200, 409, 422)
def large_images(service: Service, scale: float) -> Iterator[int]:
    """The largest picture of each kind, and one that is all length."""
    side = int(7000 * scale**0.5)
    for mode in ("RGB", "RGBA", "I;16", "P", "1"):
        yield service.post("/v1/predict/image", *_form([_png(side, side, mode)]))
    yield service.post("/v1/predict/image", *_form([_png(int(10 * MB * scale), 1)]))


# ---------------------------------------------------------------------- connections
@attack(200, 400, 431, GONE)
def large_heads(service: Service, scale: float) -> Iterator[int]:
    """Headers of a hundred megabytes: one, many, and a path."""
    size = 100 * MB * scale
    start = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
    yield service.raw(start + b"X: " + _fill(b"x", size) + b"\r\n\r\n")
    yield service.raw(start + _fill(b"X: 1234567890\r\n", size) + b"\r\n")
    yield service.raw(b"GET /" + _fill(b"x", size) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
    yield service.raw(start + b"X: " + b"x" * 40_000 + b"\r\n\r\n")
    chunked = b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    chunked += b"Transfer-Encoding: chunked\r\n\r\n"
    yield service.raw(chunked + b"1\r\n1\r\n0\r\nX: " + _fill(b"x", size) + b"\r\n\r\n")
    yield service.raw(chunked + b"1;" + _fill(b"x", size) + b"\r\n1\r\n0\r\n\r\n")


@attack(200)
def slow_connections(service: Service, scale: float) -> Iterator[int]:
    """Hundreds of connections, none of which ever says enough; more are left to a proxy."""
    starts = b"", b"GET /health HT", b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: "
    with ExitStack() as stack:
        for number in range(int(900 * scale) + 1):
            connection = stack.enter_context(service.connect())
            connection.sendall(starts[number % 3])
        deadline = time.monotonic() + (15 if scale == 1 else 3)
        while time.monotonic() < deadline:
            yield service.call("GET", "/health")[0]
            time.sleep(0.05)


@attack(200, 201, 408, 503, GONE)
def parked_uploads(service: Service, scale: float) -> Iterator[int]:
    """Uploads that stop shortly before their end; a class comes and goes meanwhile."""
    size = int(62 * MB * scale)
    content = _head("/v1/predict", OCTETS, size + 1000) + bytes(size)
    with ExitStack() as stack:
        parked = []
        for _ in range(12):
            connection = stack.enter_context(service.connect())
            with suppress(OSError):
                connection.sendall(content)
            parked.append(connection)
        yield from _change_classes(service)
        for connection in parked:
            yield status_of(connection)


def _change_classes(service: Service) -> Iterator[int]:
    name = f"parked {time.monotonic_ns()}"
    card = json.loads(service.call("GET", "/v1/model")[1])
    vector = [0.25] * card["n_attributes"]
    body = json.dumps({"classes": [{"name": name, "vector": vector}]})
    yield service.post("/v1/classes", body, key=True)
    address = "/v1/classes/" + name.replace(" ", "%20")
    yield service.call("DELETE", address, headers={"X-API-Key": KEY})[0]


@attack(200, 201, 503)
def crowd(service: Service, scale: float) -> Iterator[int]:
    """Three hundred clients at once with large batches; a class comes and goes meanwhile."""
    n_rows = max(1, int(256 * scale))
    body = bytes(4 * service.n_features * n_rows)
    n_clients = max(4, int(300 * scale))
    with ThreadPoolExecutor(n_clients) as pool:
        asked = [pool.submit(service.post, "/v1/predict", body, OCTETS) for _ in range(n_clients)]
        yield from _change_classes(service)
        yield from (each.result() for each in asked)


@attack(GONE, 200, 503)
def slow_readers(service: Service, scale: float) -> Iterator[int]:
    """Clients that ask for large answers and do not read them."""
    n_rows = max(1, int(4000 * scale))
    n_bytes = 4 * service.n_features * n_rows
    content = _head("/v1/predict?top_k=3", OCTETS, n_bytes) + bytes(n_bytes)
    with ExitStack() as stack:
        readers: list[socket.socket] = []
        for _ in range(max(2, int(20 * scale))):
            connection = socket.socket()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.settimeout(60)
            connection.connect(("127.0.0.1", service.port))
            stack.enter_context(connection)
            connection.sendall(content)
            readers.append(connection)
        time.sleep(13 * min(1.0, 10 * scale))
        for connection in readers:
            yield status_of(connection)


@attack(200, 400, 503, GONE)
def sent_ahead(service: Service, scale: float) -> Iterator[int]:
    """Thousands of requests on one connection before the first is answered."""
    request = b"GET /v1/classes HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for _ in range(5):
        yield service.raw(_fill(request, MB * scale))


@attack(GONE)
def broken_off(service: Service, scale: float) -> Iterator[int]:
    """Uploads whose clients go away in the middle."""
    content = _head("/v1/predict", JSON, MB) + bytes(1000)
    for _ in range(max(3, int(200 * scale))):
        with service.connect() as connection:
            connection.sendall(content)
        yield GONE


# ---------------------------------------------------------------------- other sites' pages
@attack(200, 403, 415, 421)
def foreign_pages(service: Service, scale: float) -> Iterator[int]:
    """Names that are not the service's, and pages of other sites; keys do not help them."""
    body = b'{"classes":[{"name":"x","vector":[1]}]}'
    for more in (
        {"Host": "rebound.example.org"},
        {"Origin": "https://example.org"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ):
        yield service.post("/v1/classes", body, key=True, **more)
    yield service.post("/v1/classes", body, "text/plain", key=True)
    yield service.call("GET", "/v1/model", headers={"Host": "rebound.example.org"})[0]


def run_attacks(
    service: Service, scale: float, lap: Callable[[], dict[str, object]]
) -> Iterator[dict[str, object]]:
    """Run every attack; yield its statuses, those that are wrong, and what a lap tells."""
    for name, (run, expected) in ATTACKS.items():
        lap()
        taken: dict[str, list[float]] = {}
        with ExitStack() as stack:
            if name in QUEUED:
                stack.enter_context(_many_classes(service, int(5000 * scale)))
                taken = stack.enter_context(_bystander(service))
            start = time.monotonic()
            statuses = Counter(run(service, scale))
            seconds = time.monotonic() - start
        yield {
            "attack": name,
            "seconds": seconds,
            "statuses": {str(status): count for status, count in sorted(statuses.items())},
            "unexpected": sorted(set(statuses) - expected),
            **{kind: max(times) for kind, times in taken.items()},
            **lap(),
        }
