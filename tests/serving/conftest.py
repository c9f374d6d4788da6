"""Fixtures of the service's tests: a saved model, and databases of both kinds."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from tests.registries import Registry

from hgkt.data import load_dataset
from hgkt.estimators import HGKTClassifier, load_model
from hgkt.serving.edition import model_identity
from hgkt.serving.events import ClassEntry
from hgkt.serving.live_model import ServedModel

_NUMBERS = itertools.count()
HGKT = [sys.executable, "-m", "hgkt"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "300"}
PATIENCE = 60.0


class Service:
    """A running server: requests over connections of their own, so that any worker may answer."""

    def __init__(self, process, port):
        self.process, self.port = process, port

    def call(self, method, path, document=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            body = None if document is None else json.dumps(document)
            connection.request(method, path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read().decode()
            return response.status, text, int(response.headers.get("X-Worker", 0))
        finally:
            connection.close()

    def ask(self, path):
        """Return the answer by worker, of many requests."""
        found = {}
        for _ in range(40):
            try:
                status, text, worker = self.call("GET", path)
            except (OSError, http.client.HTTPException):
                time.sleep(0.05)
                continue
            if status == 200:
                found[worker] = text
            if len(found) > 1:
                break
        return found

    def until(self, condition, seconds=PATIENCE):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if condition():
                return True
            time.sleep(0.05)
        return False


@contextlib.contextmanager
def run_command(*arguments, **environment):
    """Run `hgkt serve` until the block ends."""
    process = subprocess.Popen(
        [*HGKT, "serve", "--port", "0", "--grace", "0", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**ENVIRONMENT, **environment},
        start_new_session=True,  # a group of its own, for signals to all of it
    )
    try:
        line = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)$", line.strip())
        assert found, line + process.stderr.read()
        service = Service(process, int(found[1]))
        assert service.until(lambda: service.ask("/ready"))
        yield service
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(timeout=30)
        for stream in (process.stdout, process.stderr):
            stream.close()


@pytest.fixture
def serve():
    """Run `hgkt serve` with arguments of the test; yields a Service."""
    return run_command


@pytest.fixture(scope="module")
def module_serve():
    """As `serve`, for services that the tests of a module share."""
    return run_command


@pytest.fixture(autouse=True, scope="session")
def _own_name() -> Iterator[None]:
    """Have test clients call the service by a name that it answers to."""
    original = TestClient.__init__

    def call(self: TestClient, app: Any, base_url: str = "http://localhost", **more: Any) -> None:
        original(self, app, base_url, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TestClient, "__init__", call)
        yield


@pytest.fixture(scope="session")
def http_scope() -> Any:
    """Return what a server hands to an application with a request that carries JSON."""

    def scope(method: str, path: str, headers: Any = ()) -> dict[str, Any]:
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "scheme": "http",
            "query_string": b"",
            "headers": [(b"content-type", b"application/json"), *headers],
        }

    return scope


@pytest.fixture(scope="session")
def digits() -> Any:
    return load_dataset("digits")


@pytest.fixture(scope="session")
def digits_folder(tmp_path_factory: pytest.TempPathFactory, digits: Any) -> Path:
    """The closed form on the eight seen digits, with one class, "blot", added and saved."""
    X, y = digits.rows("train")
    model = HGKTClassifier(calibration=0.3, device="cpu")
    model.fit(X, y, class_attributes=digits.attributes_of(digits.seen_classes))
    names = list(digits.attribute_names or ())
    model.add_classes({"blot": np.full(len(names), 0.5)})
    return model.save(
        tmp_path_factory.mktemp("digits") / "model", data="digits", attribute_names=names
    )


@pytest.fixture(scope="session")
def retrained_folder(tmp_path_factory: pytest.TempPathFactory, digits: Any) -> Path:
    """The closed form on the same digits, learned from half of the rows."""
    X, y = digits.rows("train")
    model = HGKTClassifier(calibration=0.3, device="cpu")
    model.fit(X[::2], y[::2], class_attributes=digits.attributes_of(digits.seen_classes))
    names = list(digits.attribute_names or ())
    return model.save(
        tmp_path_factory.mktemp("new") / "model", data="digits", attribute_names=names
    )


@pytest.fixture
def digits_model(digits_folder: Path) -> Any:
    return load_model(digits_folder)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Any]:
    """A PostgreSQL server of this test run."""
    pgserver = pytest.importorskip(
        "pgserver", reason="tests against PostgreSQL need the package pgserver"
    )
    # Not under pytest's folder: run by root, the server is another user, who may not enter there.
    with tempfile.TemporaryDirectory(prefix="hgkt-pg-", ignore_cleanup_errors=True) as folder:
        server = pgserver.get_server(folder, cleanup_mode="stop")
        # No test cuts the power, and without waiting for the disk databases come and go quickly.
        server.psql("ALTER SYSTEM SET fsync = off")
        server.psql("SELECT pg_reload_conf()")
        yield server
        server.cleanup()


@pytest.fixture
def postgresql_url(postgresql: Any) -> Iterator[str]:
    """An empty database of its own for one test."""
    psycopg = pytest.importorskip("psycopg")
    name = f"test_{next(_NUMBERS)}"
    with psycopg.connect(postgresql.get_uri(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield postgresql.get_uri(name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.endure)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database; every test with it runs on both kinds."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'classes.sqlite'}"
    url: str = request.getfixturevalue("postgresql_url")
    return url


@pytest.fixture
def open_registry(database: str) -> Iterator[Callable[..., Registry]]:
    """Open registries that are closed when the test is over."""
    with contextlib.ExitStack() as stack:

        def call(model_id: str = "model", url: str = database) -> Registry:
            registry = Registry(url, model_id)
            stack.callback(registry.close)
            return registry

        yield call


@pytest.fixture
def make_served(
    open_registry: Callable[..., Registry], digits_model: Any
) -> Iterator[Callable[..., ServedModel]]:
    """Make stores of the digits model, or of another, that are closed when the test is over."""
    with contextlib.ExitStack() as stack:

        def call(model: Any = None, start: bool = False, **options: Any) -> ServedModel:
            chosen = digits_model if model is None else model
            served = ServedModel(chosen, open_registry(model_identity(chosen)), **options)
            stack.callback(served.close)
            return served.start() if start else served

        yield call


@pytest.fixture
def make_served_on(digits_model: Any) -> Iterator[Callable[[str], ServedModel]]:
    """Make a store of the digits model on a database of the test's own."""
    with contextlib.ExitStack() as stack:

        def call(url: str) -> ServedModel:
            registry = Registry(url, model_identity(digits_model))
            stack.callback(registry.close)
            return ServedModel(digits_model, registry)

        yield call


@pytest.fixture
def entry() -> Callable[..., ClassEntry]:
    """Make an entry of three attributes."""

    def call(name: str, *values: float, text: str | None = None) -> ClassEntry:
        return ClassEntry(name, np.array(values or (0.0, 0.5, 1.0)), text)

    return call
