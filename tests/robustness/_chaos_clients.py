"""Clients of `chaos.py`: one kind changes classes and remembers what it was told, one predicts."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from _records import ask

_BATCH = 3
_RENAMED = 2  # names of a change that gives a class another one
_NONE: Mapping[str, int] = MappingProxyType({})
_PREDICTION = {"features": [[0.2, 0.5, 0.3]]}


class _Client(threading.Thread):
    """A thread that talks to the service until it is told to stop."""

    def __init__(self, port: int, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.port = port
        self.wrong: list[str] = []
        self._last = threading.Event()
        self._now = threading.Event()

    def finish(self, seconds: float = 60.0) -> None:
        """Let the request under way be answered, and end."""
        self._last.set()
        if self.ident is not None:
            self.join(timeout=seconds)
            if self.is_alive():
                self.wrong.append(f"{self.name} did not end within {seconds:g} s")

    def stop_now(self) -> None:
        """End without an answer."""
        self._last.set()
        self._now.set()

    def send(
        self, method: str, path: str, document: Any = None, key: str | None = None
    ) -> tuple[int, str]:
        """Send one request over a connection of its own; return status and body."""
        headers = {"Content-Type": "application/json", "Connection": "close"}
        if key is not None:
            headers["Idempotency-Key"] = key
        body = None if document is None else json.dumps(document)
        status, answer = ask(self.port, method, path, body, headers, timeout=30)
        return status, answer.decode()


class Changer(_Client):
    """Changes classes; what gets no answer is sent again with the same key.

    It adds them in batches, removes and renames single ones, and has them grow.

    Parameters
    ----------
    port : int
        Where the service listens.
    number : int
        Its own number; names of its classes begin with it.
    seed : int
        Seed of its choices.
    """

    def __init__(self, port: int, number: int, seed: int) -> None:
        super().__init__(port, f"changer {number}")
        self._rng = random.Random(f"{seed} {number}")
        self._number, self._count = number, 0
        self._lock = threading.Lock()
        self._there: dict[str, bool] = {}  # acknowledged: whether a class is there
        self._grown: dict[str, int] = {}  # acknowledged: how many examples it has
        self._open: tuple[str, ...] = ()  # of the request under way
        self.n_acknowledged = self.n_again = 0

    def run(self) -> None:
        """Change classes until told to stop."""
        while not self._last.is_set():
            present = [name for name, there in self._there.items() if there]
            acts = [self._remove] * 3 + [self._grow] * 2 + [self._rename]
            if present and self._rng.random() < 0.6:
                self._rng.choice(acts)(self._rng.choice(present))
            else:
                self._add()

    def compare(self, there: set[str], growth: Mapping[str, int] = _NONE) -> tuple[int, int]:
        """Return how many acknowledged changes a database lacks, and how many are there by half.

        Parameters
        ----------
        there : set of str
            The classes that it has.
        growth : mapping of str to int
            How many examples some of them have.
        """
        with self._lock:
            known, grown, under_way = dict(self._there), dict(self._grown), self._open
        settled = {name: there for name, there in known.items() if name not in under_way}
        lost = sum(expected != (name in there) for name, expected in settled.items())
        lost += sum(growth.get(name, 0) != grown.get(name, 0) for name in settled if name in there)
        batches: dict[str, list[str]] = {}
        for name in under_way:
            batches.setdefault(name.rpartition(".")[0], []).append(name)
        adding = [names for names in batches.values() if len(names) == _BATCH]
        half = sum(len(there.intersection(names)) not in (0, _BATCH) for names in adding)
        if len(under_way) == _RENAMED:
            half += len(there.intersection(under_way)) != 1
        own = {name for name in there if name.startswith(f"{self._number}.")}
        strange = own - known.keys() - set(under_way)
        return lost + len(strange), half

    def _add(self) -> None:
        self._count += 1
        names = tuple(f"{self._number}.{self._count}.{part}" for part in range(_BATCH))
        vectors = [[self._rng.random(), self._rng.random()] for _ in names]
        classes = [
            {"name": name, "vector": vector} for name, vector in zip(names, vectors, strict=True)
        ]
        self._change("POST", "/v1/classes", {"classes": classes}, names, 201)

    def _remove(self, name: str) -> None:
        self._count += 1
        self._change("DELETE", f"/v1/classes/{name}", None, (name,), 200)

    def _rename(self, name: str) -> None:
        self._count += 1
        new = f"{name}-{self._count}"
        self._change("PATCH", f"/v1/classes/{name}", {"name": new}, (name, new), 200)

    def _grow(self, name: str) -> None:
        self._count += 1
        rows = [[self._rng.random() for _ in range(3)] for _ in range(self._rng.randrange(1, 4))]
        path = f"/v1/classes/{name}/examples"
        self._change("POST", path, {"features": rows}, (name,), 200)

    def _change(
        self, method: str, path: str, document: Any, names: tuple[str, ...], good: int
    ) -> None:
        key = f"{self._number}-{self._count}"
        with self._lock:
            self._open = names
        n_sent = 0
        while not self._now.is_set():
            try:
                n_sent += 1
                self.n_again += n_sent == 2
                status, text = self.send(method, path, document, key)
            except (OSError, http.client.HTTPException):
                time.sleep(self._rng.uniform(0.02, 0.1))
                continue
            if status == 503:  # the stated way to be told to come again
                time.sleep(0.05)
                continue
            with self._lock:
                self._open = ()
                if status == good:
                    self._note(method, names, document)
                    self.n_acknowledged += 1
                else:
                    self.wrong.append(f"{method} {path}: {status} {text[:200]}")
            return

    def _note(self, method: str, names: tuple[str, ...], document: Any) -> None:
        """Remember what a change did that was acknowledged."""
        if method == "PATCH":
            old, new = names
            self._there |= {old: False, new: True}
            self._grown[new] = self._grown.pop(old, 0)
        elif method == "POST" and "features" in document:
            self._grown[names[0]] = self._grown.get(names[0], 0) + len(document["features"])
        else:
            self._there.update(dict.fromkeys(names, method == "POST"))
            for name in names:
                self._grown.pop(name, None)


class Predictor(_Client):
    """Predicts as long as /ready answers 200; any failure until then is one too many."""

    def __init__(self, port: int, number: int, seed: float) -> None:
        super().__init__(port, f"predictor {number}")
        self._rng = random.Random(seed)
        self.n_answers = 0

    def run(self) -> None:
        """Ask, and predict a few times, until told that the service is going."""
        while not self._last.is_set():
            try:
                status, _ = self.send("GET", "/ready")
                if status == 503:
                    return
                for _ in range(self._rng.randrange(1, 4)):
                    status, text = self.send("POST", "/v1/predict", _PREDICTION)
                    self.n_answers += 1
                    if status != 200:
                        self.wrong.append(f"{status} {text[:200]}")
            except (OSError, http.client.HTTPException) as error:
                self.wrong.append(repr(error))
                return
