"""Good requests, changed at random: bytes, numbers, names, headers, lengths.

The same seed gives the same requests, whatever the service answers.
"""

from __future__ import annotations

import http.client
import io
import random
import re
import socket
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from fuzzing.attacks import OCTETS
from fuzzing.service import JSON, KEY, Service

_TOKENS = (
    *(b"null", b"true", b"NaN", b"Infinity", b"-0", b"1e999", b"1e-999", b"9" * 400, b"[]", b"{}"),
    *(b'""', b'"\\ud800"', b"\\u0000", b"\xff\xfe", b"[" * 300, b'{"a":' * 300, b",,", b'"', b"\\"),
    *(b'"features"', b'"classes"', b'"name"', b"..", b"%00", b"%2e%2e/", b"\r\n", b"\0", b"'--"),
)
_HEADERS = (
    *(b"Content-Type: text/plain", b"Content-Type: application/json;" + b"x" * 500),
    *(b"Content-Encoding: gzip", b"Transfer-Encoding: chunked", b"Expect: 100-continue"),
    *(b"X-API-Key: wrong, but long enough", b"Authorization: Bearer x", b"Host: example.org"),
    *(b"Upgrade: websocket\r\nConnection: Upgrade", b"Origin: null", b"X: \xff\x00"),
    *(b"Content-Length: 5", b"Content-Length: -1", b"If-None-Match: *", b"Connection: close"),
    *(b"Accept: application/octet-stream", b"Range: bytes=0-"),
)
_METHODS = b"GET HEAD POST PUT PATCH DELETE OPTIONS TRACE X".split()
_ANSWER_SECONDS = 20.0
_SHORT_SECONDS = 0.1  # for requests whose length may be wrong, so that no answer need come


@dataclass(frozen=True)
class Request:
    """A request before it is written down."""

    method: bytes
    path: bytes
    headers: tuple[bytes, ...] = ()
    body: bytes = b""
    honest: bool = True

    def to_bytes(self) -> bytes:
        """Write it as HTTP has it."""
        lines = [self.method + b" " + self.path + b" HTTP/1.1", b"Host: localhost", *self.headers]
        if self.body or self.method == b"POST":
            lines.append(b"Content-Length: %d" % len(self.body))
        return b"\r\n".join([*lines, b"", self.body])


def seeds(service: Service) -> list[Request]:
    """Return good requests of every kind."""
    rng = np.random.default_rng(0)
    rows = rng.random((3, service.n_features), dtype=np.float32)
    numbers = ",".join(f"{value:.3g}" for value in rows[0])
    json_body = f'{{"features":[[{numbers}]],"top_k":2,"among":"all","explain":true}}'.encode()
    tensor = (
        f'{{"inputs":[{{"name":"features","datatype":"FP32","shape":[1,{service.n_features}],'
        f'"data":[{numbers}]}}]}}'
    ).encode()
    key, as_json = b"X-API-Key: " + KEY.encode(), b"Content-Type: " + JSON.encode()
    named = b'{"classes":[{"name":"fuzzed","attributes":{"red":0.5,"segment a":1},"text":"a b"}]}'
    vector = b'{"classes":[{"name":"fuzzed","vector":[0.5,0.25,1]},{"name":"other","text":"x"}]}'
    picture = (
        b'--b\r\nContent-Disposition: form-data; name="images"; filename="a.png"\r\n'
        b"Content-Type: image/png\r\n\r\n" + _small_png() + b"\r\n--b--\r\n"
    )
    octets = b"Content-Type: " + OCTETS.encode()
    form = b"Content-Type: multipart/form-data; boundary=b"
    return [
        Request(b"POST", b"/v1/predict", (as_json,), json_body),
        Request(b"POST", b"/v1/predict?top_k=3&among=seen", (octets,), rows.tobytes()),
        Request(b"POST", b"/v1/predict/text", (as_json,), b'{"texts":["a b","c"],"top_k":2}'),
        Request(b"POST", b"/v2/models/model/infer", (as_json,), tensor),
        Request(b"POST", b"/v1/predict/image?top_k=2", (form,), picture),
        Request(b"POST", b"/v1/classes", (as_json, key), named),
        Request(b"POST", b"/v1/classes", (as_json, key), vector),
        Request(b"POST", b"/v1/classes/check", (as_json,), named),
        Request(b"PATCH", b"/v1/classes/fuzzed", (as_json, key), b'{"name":"other","text":"a"}'),
        Request(b"POST", b"/v1/classes/red/examples", (octets, key), rows.tobytes()),
        Request(b"DELETE", b"/v1/classes/fuzzed", (key,)),
        Request(b"POST", b"/v1/rollback", (as_json, key), b'{"revision":1,"reason":"a b"}'),
        Request(b"GET", b"/v1/events?after=0&limit=5&name=red"),
        Request(b"GET", b"/v1/classes?query=a&kind=added&offset=0&limit=5&newest_first=true"),
        Request(b"GET", b"/v1/classes/red"),
        Request(b"GET", b"/v1/model"),
        Request(b"GET", b"/v1/map"),
        Request(b"GET", b"/v1/samples/0"),
        Request(b"GET", b"/metrics"),
        Request(b"GET", b"/page/main.js", (b"Accept-Encoding: gzip",)),
        Request(b"GET", b"/docs"),
    ]


def _small_png() -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), (200, 20, 20)).save(buffer, "PNG")
    return buffer.getvalue()


# ---------------------------------------------------------------------- changes
def change_bytes(content: bytes, rng: random.Random) -> bytes:
    """Change some bytes: flip, cut, repeat, insert a token, or move a piece."""
    result = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        place = rng.randrange(len(result) + 1)
        kind = rng.randrange(6)
        if kind == 0 and result:
            result[place % len(result)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del result[place : place + rng.choice((1, 2, 8, 64, len(result)))]
        elif kind == 2:
            piece = result[place : place + rng.choice((1, 8, 64))]
            result[place:place] = piece * rng.choice((1, 9))
        elif kind == 3:
            result[place:place] = rng.choice(_TOKENS)
        elif kind == 4:
            result[place : place + 1] = rng.choice(_TOKENS)
        else:
            other = rng.randrange(len(result) + 1)
            result[place:place] = result[min(place, other) : max(place, other)][:256]
    return bytes(result)


def _clean(line: bytes) -> bytes:
    return re.sub(rb"[\x00-\x20\x7f-\xff]", b"%20", line)


def change(request: Request, rng: random.Random) -> Request:
    """Change one part of a request, most often the body."""
    kind = rng.random()
    if kind < 0.5 and request.body:
        return replace(request, body=change_bytes(request.body, rng))
    if kind < 0.7:
        # Mostly behind the part that the router knows, where the service's own code begins.
        known = request.path.rfind(b"?" if b"?" in request.path else b"/") + 1
        known = known if rng.random() < 0.8 else 1
        changed = _clean(change_bytes(request.path[known:], rng))
        return replace(request, path=request.path[:known] + changed)
    if kind < 0.85:
        return replace(request, headers=(*request.headers, rng.choice(_HEADERS)), honest=False)
    if kind < 0.9:
        return replace(request, method=rng.choice(_METHODS), honest=False)
    if kind < 0.95 and request.headers:
        place = rng.randrange(len(request.headers))
        headers = list(request.headers)
        headers[place] = re.sub(rb"[\r\n]", b"", change_bytes(headers[place], rng))
        return replace(request, headers=tuple(headers), honest=False)
    return request


def requests(service: Service, seed: int) -> Iterator[tuple[bytes, bool]]:
    """Yield changed requests without end, and whether an answer must come."""
    rng = random.Random(seed)
    known = seeds(service)
    while True:
        request = change(rng.choice(known), rng)
        if rng.random() < 0.03:
            yield change_bytes(request.to_bytes(), rng), False
        else:
            yield request.to_bytes(), request.honest and request.method != b"HEAD"


# ---------------------------------------------------------------------- sending
class _Client:
    """A connection that is kept as long as the service keeps it."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._connection: socket.socket | None = None

    def send(self, content: bytes, must_answer: bool) -> int | None:
        """Return the status; None where no answer had to come, and none came."""
        for fresh in (False, True):
            if self._connection is None or not must_answer:
                self.close()
                self._connection = self._service.connect()
                fresh = True
            self._connection.settimeout(_ANSWER_SECONDS if must_answer else _SHORT_SECONDS)
            status = self._try(self._connection, content)
            if not must_answer or status is None:
                self.close()
            if status is not None or fresh:
                return 0 if status is None and must_answer else status
        return None

    def _try(self, connection: socket.socket, content: bytes) -> int | None:
        try:
            connection.sendall(content)
            answer = http.client.HTTPResponse(connection)
            answer.begin()
            answer.read()
            if answer.will_close:
                self.close()
            return answer.status
        except (OSError, http.client.HTTPException):
            return None

    def close(self) -> None:
        """Let go of the connection."""
        if self._connection is not None:
            with suppress(OSError):
                self._connection.close()
            self._connection = None


def send_mutations(service: Service, n_requests: int, seed: int, n_clients: int) -> Counter[str]:
    """Send changed requests from several clients and count the statuses.

    Parameters
    ----------
    service : Service
        Where to.
    n_requests, seed, n_clients : int
        How many in all, and where the random numbers begin.
    """

    def work(number: int) -> Counter[str]:
        client, counts = _Client(service), Counter[str]()
        stream = requests(service, seed * 1000 + number)
        for content, must_answer in islice(stream, n_requests // n_clients):
            status = client.send(content, must_answer)
            counts["no answer due" if status is None else str(status)] += 1
        client.close()
        return counts

    with ThreadPoolExecutor(n_clients) as pool:
        return sum(pool.map(work, range(n_clients)), Counter[str]())
