"""The service under attack: a model, a server process, and requests to it."""

from __future__ import annotations

import http.client
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _records import ask, served

KEY = "the key of the fuzzed service"
JSON = "application/json"


@dataclass(frozen=True)
class Service:
    """A running server process."""

    port: int
    process: int
    log: Path
    n_features: int
    images: bool

    def connect(self, timeout: float = 60.0) -> socket.socket:
        """Open a connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout)

    def call(self, method: str, path: str, *more: Any, **options: Any) -> tuple[int, bytes]:
        """Send one request; the status is 0 where the connection ends without an answer."""
        try:
            return ask(self.port, method, path, *more, **options)
        except (OSError, http.client.HTTPException):
            return 0, b""

    def post(self, path: str, body: Any, kind: str = JSON, key: bool = False, **more: str) -> int:
        """Send a body and return the status."""
        headers = {"Content-Type": kind, **({"X-API-Key": KEY} if key else {}), **more}
        return self.call("POST", path, body, headers)[0]

    def raw(self, content: bytes, timeout: float = 30.0) -> int:
        """Send bytes as they are and return the status of the first answer, 0 where none comes."""
        with self.connect(timeout) as connection:
            with suppress(OSError):
                connection.sendall(content)
            return status_of(connection)


def status_of(connection: socket.socket) -> int:
    """Read the status line of an answer; 0 where the connection ends before."""
    try:
        start = connection.recv(64)
    except OSError:
        return 0
    found = re.match(rb"HTTP/1\.\d (\d{3})", start)
    return int(found[1]) if found else 0


def save_model(folder: Path, images: bool) -> int:
    """Save a small model, of images or of the embedded digits; return its number of features."""
    if images:
        return _save_image_model(folder)
    from hgkt.data import load_dataset
    from hgkt.estimators import HGKTClassifier

    data = load_dataset("digits")
    X, y = data.rows("train")
    model = HGKTClassifier(calibration=0.3, device="cpu")
    model.fit(X, y, class_attributes=data.attributes_of(data.seen_classes))
    model.save(folder, attribute_names=list(data.attribute_names))
    return int(model.n_features_in_)


def _save_image_model(folder: Path) -> int:
    import numpy as np
    from PIL import Image

    from hgkt.estimators import METHODS
    from hgkt.vision import load_backbone

    colors = {"red": (200, 20, 20), "green": (20, 200, 20), "blue": (20, 20, 200)}
    backbone = load_backbone("efficientnet-lite0")
    images = [Image.new("RGB", (32, 32), color) for color in colors.values() for _ in range(2)]
    labels = [name for name in colors for _ in range(2)]
    table = {name: np.array(color) / 255 for name, color in colors.items()}
    model = METHODS.load("ridge")().fit(backbone.extract(images), labels, table)
    model.save(folder, backbone=backbone.record, attribute_names=["red", "green", "blue"])
    return int(model.n_features_in_)


@contextmanager
def running(folder: Path, images: bool) -> Iterator[Service]:
    """Train a model in `folder`, serve it with a key, and yield the service once it is ready."""
    n_features = save_model(folder / "model", images)
    keys, log = folder / "keys", folder / "log"
    keys.write_text(KEY + "\n")
    keys.chmod(0o600)
    options = ["--api-key-file", str(keys)]
    with served(folder / "model", *options, log=log) as (port, process):
        service = Service(port, process, log, n_features, images)
        _wait(service)
        yield service


def _wait(service: Service) -> None:
    deadline = time.monotonic() + 60
    while service.call("GET", "/ready")[0] != 200:
        if time.monotonic() > deadline:
            raise RuntimeError("the server was not ready after a minute")
        time.sleep(0.05)
    # The backbone is loaded behind the scenes; what it takes is not an attack's doing.
    service.call("GET", "/v1/model")
    service.post("/v1/predict", b'{"features":[[' + b"1," * (service.n_features - 1) + b"1]]}")
