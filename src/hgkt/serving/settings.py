"""Everything the service can be told, checked before anything listens."""

from __future__ import annotations

import ipaddress
import logging
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Self

from pydantic import TypeAdapter, ValidationError

from hgkt._validation import check_choice, check_number
from hgkt.exceptions import DataError
from hgkt.serving.pins import Pin

ENVIRONMENT = "HGKT_SERVICE"
MIN_KEY_LENGTH = 16
_MIB = 2**20
_DEVICES = ("auto", "cpu", "cuda")
_GUARDED = ("changes", "all")

KeyGuards = Literal["nothing", "changes", "all"]
_OWN_NAMES = ("localhost", "127.0.0.1", "::1")
_MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ModelFolder:
    """A model that is served beside the first.

    Parameters
    ----------
    name : str
        What it is called.
    folder : Path
        Its folder.
    pin : Pin, optional
        What a worker must find.
    """

    name: str
    folder: Path
    pin: Pin | None = None


@dataclass(frozen=True)
class ServiceSettings:
    """Settings of the service.

    Neither the keys nor the database's address, which may hold a password, show in a ``repr``.

    Parameters
    ----------
    model : Path
        Model folder.
    database : str, optional
        Address of the class registry, ``sqlite:///file`` or ``postgresql://…``; by default a
        SQLite file beside the model folder, ``<model>.registry.sqlite``.
    host, port : str, int
        Where to listen; port 0 takes any that is free.
    workers : int
        Number of server processes.
    api_keys : tuple of str
        Keys that may add and remove classes; none means that everybody who gets through may.
    allow_open : bool
        Whether to listen beyond this machine without a key.
    require_key : {"changes", "all"}
        What needs one of the keys: adding and removing classes, or everything but the probes and
        the empty page.
    samples : str, optional
        Data set from which the page offers instances.
    root : Path, optional
        Folder of the benchmark's folders, for `samples`.
    image_root : Path, optional
        Folder of the images of `samples`.
    allowed_hosts : tuple of str
        Names in the Host header that are answered, without port; ``*.example.org`` stands for all
        names that end so, ``*`` for any. By default the names of this machine where only this
        machine can reach the service, and any name otherwise.
    max_body_bytes, max_class_bytes : int
        The largest body of a request, and of one that adds classes.
    max_rows, max_classes, max_image_bytes, max_image_pixels : int
        The most that one request may carry.
    max_request_pixels : int
        Pixels that the images of one request may have together. A JPEG that is decoded at a
        fraction of its size counts at that size, and at least a quarter of its own.
    max_ranked : int
        Rows times classes per row of one answer.
    max_bodies_bytes : int
        Bytes of all bodies that a worker holds at once; never less than `max_body_bytes`.
    max_waiting, max_waiting_images : int
        Requests of a worker that may wait to be computed, of feature rows and of images.
    max_connections : int
        Open connections of a worker; fewer where the system lets it open fewer files.
    max_head_bytes : int
        The largest request line with all headers.
    client_seconds : float
        How long to wait for a client: for a whole head, for the next part of a body, and for
        the answer to be read.
    poll_seconds : float
        How often a worker looks for classes that others added.
    device : {"auto", "cpu", "cuda"}
        Where images are turned into features.
    verify_key : Path, optional
        A public key; the model must then be as its owner signed it.
    grace_seconds, shutdown_seconds : float
        How long the service goes on answering after it was told to stop, and how long requests
        under way may take after that.
    pin : Pin, optional
        What a worker must find; filled in by the process that starts it.
    called : str, optional
        What the model is called; by default as its folder is.
    beside : tuple of ModelFolder
        Models that are served beside it, with the same database and the same limits.
    alias : str
        Under which the registry's database keeps which of several models is current.

    Examples
    --------
    >>> settings = ServiceSettings(Path("birds"), api_keys=("correct horse battery",))
    >>> settings.database_url()
    'sqlite:///birds.registry.sqlite'
    >>> "horse" in repr(settings)
    False
    >>> ServiceSettings.from_environment(settings.to_environment()) == settings
    True
    """

    model: Path
    database: str | None = field(default=None, repr=False)
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    api_keys: tuple[str, ...] = field(default=(), repr=False)
    allow_open: bool = False
    require_key: str = "changes"
    samples: str | None = None
    root: Path | None = None
    image_root: Path | None = None
    allowed_hosts: tuple[str, ...] = ()
    max_body_bytes: int = 64 * _MIB
    max_class_bytes: int = 8 * _MIB
    max_rows: int = 4096
    max_classes: int = 1000
    max_image_bytes: int = 20 * _MIB
    max_image_pixels: int = 89_478_485  # as `hgkt.vision.open_image` and the commands
    max_request_pixels: int = 200_000_000
    max_ranked: int = 250_000
    max_bodies_bytes: int = 256 * _MIB
    max_waiting: int = 128
    max_waiting_images: int = 8
    max_connections: int = 1000
    max_head_bytes: int = 32 * 1024
    client_seconds: float = 10.0
    poll_seconds: float = 0.25
    device: str = "cpu"
    verify_key: Path | None = None
    grace_seconds: float = 5.0
    shutdown_seconds: float = 10.0
    pin: Pin | None = None
    called: str | None = None
    beside: tuple[ModelFolder, ...] = ()
    alias: str = "current"

    def check(self) -> Self:
        """Refuse what cannot work or would be unsafe; return self."""
        check_number("port", self.port, low=0, high=65535, integer=True)
        check_number("workers", self.workers, low=1, high=1024, integer=True)
        for name, value in vars(self).items():
            if name.startswith("max_"):
                check_number(name, value, low=1, integer=True)
        check_number("poll_seconds", self.poll_seconds, low=0.0, high=60.0, open_low=True)
        check_number("client_seconds", self.client_seconds, low=0.0, high=3600.0, open_low=True)
        for name in ("grace_seconds", "shutdown_seconds"):
            check_number(name, getattr(self, name), low=0.0, high=3600.0)
        check_choice("device", self.device, _DEVICES)
        check_choice("require_key", self.require_key, _GUARDED)
        for name in self.allowed_hosts:
            _check_host(name)
        for key in self.api_keys:
            _check_key(key, "an API key")
        if self.require_key == "all" and not self.api_keys:
            raise DataError("a key is required of all requests, but there is none; give API keys")
        if not self.api_keys and not self.allow_open and not self.local():
            raise DataError(
                f"host {self.host!r} can be reached from other machines, where anybody could add "
                "and remove classes; give an API key, or say that it shall be open (allow_open)"
            )
        if self.beside:
            self._check_models()
        return self

    def _check_models(self) -> None:
        """Refuse several models that could not be told apart, or whose classes are nowhere."""
        for name in (*self.model_names(), self.alias):
            if not _MODEL_NAME.fullmatch(name):
                raise DataError(
                    f"{name!r} cannot be the name of one of several models; up to 64 letters, "
                    "digits, dots, dashes and underscores are expected"
                )
        twice = [name for name in self.model_names() if self.model_names().count(name) > 1]
        if twice:
            raise DataError(f"two models are called {twice[0]!r}; say NAME=FOLDER to name them")
        if self.alias in self.model_names():
            raise DataError(f"{self.alias!r} is the alias, and no model can be called so too")
        if self.database is None:
            raise DataError(
                "several models keep their classes in one class registry; say in which database"
            )

    def local(self) -> bool:
        """Return whether only this machine can reach the service."""
        if self.host.lower() == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def name(self) -> str:
        """Return what the model is called: by default the name of its folder."""
        return self.called or self.model.resolve().name

    def model_names(self) -> list[str]:
        """Return what all models are called, the first one first."""
        return [self.name(), *(other.name for other in self.beside)]

    def each(self) -> tuple[Self, ...]:
        """Return the settings of every model by itself, the first one first."""
        first = replace(self, beside=(), database=self.database_url())
        others = (
            replace(first, model=other.folder, called=other.name, pin=other.pin)
            for other in self.beside
        )
        return (first, *others)

    def in_file(self, file: tuple[str, int, int] | None) -> Self:
        """Return the settings with the registry's SQLite file in the pins of all models."""
        if self.pin is None:
            return self
        beside = tuple(
            replace(other, pin=replace(other.pin, database=file)) if other.pin else other
            for other in self.beside
        )
        return replace(self, pin=replace(self.pin, database=file), beside=beside)

    def key_guards(self) -> KeyGuards:
        """Return what nobody gets without a key."""
        return self.require_key if self.api_keys else "nothing"  # type: ignore[return-value]

    def answered_hosts(self) -> tuple[str, ...]:
        """Return the names that requests may call the service by; ``*`` is any.

        Where only this machine can reach it, a page of another site could still do so through the
        browser, by having its own name point here. Such a request carries that name.
        """
        if self.allowed_hosts:
            return tuple(name.lower() for name in self.allowed_hosts)
        return (*_OWN_NAMES, self.host.lower()) if self.local() else ("*",)

    def database_url(self) -> str:
        """Return the address of the class registry; it may hold a password."""
        if self.database is not None:
            return self.database
        return f"sqlite:///{self.model.with_name(self.model.name + '.registry.sqlite')}"

    # Not pydantic-settings: the command line has the one word on every value, and one variable,
    # read here alone, hands them all to server processes.
    def to_environment(self) -> dict[str, str]:
        """Return the environment variable that tells server processes these settings.

        It holds the keys, as a process and its children may know them.
        """
        return {ENVIRONMENT: TypeAdapter(ServiceSettings).dump_json(self).decode()}

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Self:
        """Read what `to_environment` wrote; by default from this process's environment."""
        text = (os.environ if environment is None else environment).get(ENVIRONMENT)
        if text is None:
            raise DataError(f"the environment variable {ENVIRONMENT} is not set; use `hgkt serve`")
        try:
            return TypeAdapter(cls).validate_json(text)
        except ValidationError:
            # The text may hold keys, so that neither it nor the cause is shown.
            raise DataError(
                f"the environment variable {ENVIRONMENT} does not hold the service's settings"
            ) from None


def read_database_url(path: str | Path) -> str:
    """Read the address of the class registry from a file of one line, such as a mounted secret."""
    text = _read_secret(Path(path), "the address of the class registry")
    lines = text.split()
    if len(lines) != 1:
        raise DataError(f"{path} must hold the address of the class registry and nothing else")
    return lines[0]


def read_api_keys(path: str | Path) -> tuple[str, ...]:
    """Read API keys from a file: one per line; empty lines and lines that begin with # are skipped.

    A file that everybody on the machine may read is used, with a warning: secrets that a container
    platform mounts are often so, and nobody else is in the container.
    """
    path = Path(path)
    text = _read_secret(path, "the API keys")
    keys: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        key = line.strip()
        if not key or key.startswith("#"):
            continue
        _check_key(key, f"the API key in line {number} of {path}")
        keys.append(key)
    if not keys:
        raise DataError(f"{path} holds no API key; one a line is expected")
    if path.stat().st_mode & stat.S_IROTH:
        logger.warning("%s holds API keys and everybody on this machine may read it", path)
    return tuple(dict.fromkeys(keys))


def _read_secret(path: Path, what: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise DataError(f"{what} in {path} cannot be read: {reason}") from None


def _check_host(name: str) -> None:
    """Refuse what no Host header can match."""
    bare = name.removeprefix("*.")
    if name != "*" and (not bare or not bare.isascii() or set(bare) & set("*/@[] ")):
        raise DataError(
            f"the allowed host {name!r} is none; a name such as models.example.org, "
            "*.example.org, an address or * is expected"
        )


def _check_key(key: str, what: str) -> None:
    """Refuse a key that is easily guessed or that no HTTP header can carry; never show it."""
    if not isinstance(key, str) or len(key) < MIN_KEY_LENGTH:
        raise DataError(f"{what} is too short; at least {MIN_KEY_LENGTH} characters are expected")
    if not (key.isascii() and key.isprintable()) or key != key.strip():
        raise DataError(f"{what} must be of printable ASCII characters, as HTTP headers are")
