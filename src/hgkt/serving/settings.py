"""Everything the service can be told, checked before anything listens."""

from __future__ import annotations

import logging
import stat
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, PositiveInt, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from hgkt._files import reading
from hgkt.exceptions import DataError

PREFIX = "HGKT_SERVE_"
"""How the environment variables of the settings begin."""
MIN_KEY_LENGTH = 16
KeyGuards = Literal["nothing", "changes", "all"]
_MIB = 2**20

logger = logging.getLogger(__name__)


class ServiceSettings(BaseSettings):
    """Settings of the service.

    Every field can be set by an environment variable, ``HGKT_SERVE_`` and its name in capitals;
    what is given in Python or on the command line comes first. Neither the keys nor the database's
    address, which may hold a password, show in a ``repr``.

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
    allowed_hosts : tuple of str
        Names in the Host header that are answered, without port; ``*.example.org`` stands for all
        names that end so, ``*`` for any. By default the names of this machine where only this
        machine can reach the service, and any name otherwise.
    max_body_bytes, max_class_bytes : int
        The largest body of a request, and of one that adds classes.
    max_rows, max_classes, max_checked, max_image_bytes, max_image_pixels : int
        The most that one request may carry: rows, classes to add and to check, bytes and pixels
        of an image.
    max_request_pixels : int
        Pixels that the images of one request may have together. A JPEG that is decoded at a
        fraction of its size counts at that size, and at least a quarter of its own.
    max_ranked, max_scores : int
        Rows times classes per row of one answer; rows times candidates of one request.
    max_bodies_bytes : int
        Bytes of all bodies that a worker holds at once; changes of classes have as many again.
    max_waiting, max_waiting_images : int
        Requests of a worker that may wait to be computed, of feature rows and of images.
    max_connections : int
        Open connections of a worker.
    max_head_bytes : int
        The largest request line with all headers.
    client_seconds : float
        How long to wait for the next part of a body.
    poll_seconds : float
        How often a worker looks for classes that others added.
    device : {"auto", "cpu", "cuda"}
        Where images are turned into features.
    grace_seconds, shutdown_seconds : float
        How long the service goes on answering after it was told to stop, and how long requests
        under way may take after that.
    keep_unknown : str, optional
        Where items that are rejected as unknown are kept: a folder, or "database" for that of the
        class registry. By default nothing is.
    keep_unknown_items : bool
        Whether images and texts are kept as well, beside their features.
    max_unknown, unknown_days : int, float
        How many of them are kept, and how long.
    model_digest, database_id : optional
        The model folder and the SQLite file that a worker must find; filled in by its parent.

    Examples
    --------
    >>> settings = ServiceSettings(Path("birds"), api_keys=("correct horse battery",))
    >>> settings.database_url()
    'sqlite:///birds.registry.sqlite'
    >>> "horse" in repr(settings)
    False
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, extra="forbid", protected_namespaces=()
    )

    model: Path
    database: str | None = Field(default=None, repr=False)
    host: str = "127.0.0.1"
    port: int = Field(8000, ge=0, le=65535)
    workers: int = Field(1, ge=1, le=1024)
    api_keys: tuple[str, ...] = Field(default=(), repr=False)
    allow_open: bool = False
    require_key: Literal["changes", "all"] = "changes"
    samples: str | None = None
    root: Path | None = None
    allowed_hosts: tuple[str, ...] = ()
    max_body_bytes: PositiveInt = 64 * _MIB
    max_class_bytes: PositiveInt = 8 * _MIB
    max_rows: PositiveInt = 4096
    max_classes: PositiveInt = 1000
    max_checked: PositiveInt = 100
    max_image_bytes: PositiveInt = 20 * _MIB
    max_image_pixels: PositiveInt = 89_478_485  # as `hgkt.vision.open_image` and the commands
    max_request_pixels: PositiveInt = 200_000_000
    max_ranked: PositiveInt = 250_000
    max_scores: PositiveInt = 100_000_000
    max_bodies_bytes: PositiveInt = 256 * _MIB
    max_waiting: PositiveInt = 128
    max_waiting_images: PositiveInt = 8
    max_connections: PositiveInt = 1000
    max_head_bytes: PositiveInt = 32 * 1024
    client_seconds: float = Field(10.0, gt=0, le=3600)
    poll_seconds: float = Field(0.25, gt=0, le=60)
    device: Literal["auto", "cpu", "cuda"] = "cpu"
    grace_seconds: float = Field(5.0, ge=0, le=3600)
    shutdown_seconds: float = Field(10.0, ge=0, le=3600)
    keep_unknown: str | None = None
    keep_unknown_items: bool = False
    max_unknown: PositiveInt = 10_000
    unknown_days: float = Field(30.0, gt=0, le=36500)
    model_digest: str | None = None
    database_id: tuple[str, int, int] | None = None

    def __init__(
        self, model: Path | str | None = None, database: str | None = None, **values: Any
    ) -> None:
        own = {"model": model, "database": database}
        values |= {name: value for name, value in own.items() if value is not None}
        try:
            super().__init__(**values)
        except ValidationError as error:
            # Values are not shown: one of them may be a key.
            first = error.errors(include_input=False, include_url=False)[0]
            message = str(first["msg"]).removeprefix("Value error, ")
            place = ".".join(map(str, first["loc"]))
            raise DataError(f"{place}: {message}" if place else message) from None
        except SettingsError as error:
            raise DataError(f"the settings cannot be read: {error}") from None

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Refuse what cannot work or would be unsafe."""
        for name in self.allowed_hosts:
            _check_host(name)
        for key in self.api_keys:
            _check_key(key, "an API key")
        if self.require_key == "all" and not self.api_keys:
            raise DataError("a key is required of all requests, but there is none; give API keys")
        if not self.api_keys and not self.allow_open and not self.local():
            raise DataError(
                f"host {self.host!r} can be reached from other machines, where anybody could add "
                "and remove classes; give --api-key-file, or say --allow-open"
            )
        return self

    def local(self) -> bool:
        """Return whether only this machine can reach the service."""
        try:
            return self.host.lower() == "localhost" or ip_address(self.host).is_loopback
        except ValueError:
            return False

    def name(self) -> str:
        """Return what the model is called: the name of its folder."""
        return self.model.resolve().name

    def key_guards(self) -> KeyGuards:
        """Return what nobody gets without a key."""
        return self.require_key if self.api_keys else "nothing"

    def answered_hosts(self) -> tuple[str, ...]:
        """Return the names that requests may call the service by; ``*`` is any.

        Where only this machine can reach it, a page of another site could still do so through the
        browser, by having its own name point here. Such a request carries that name.
        """
        if self.allowed_hosts:
            return tuple(name.lower() for name in self.allowed_hosts)
        own = ("localhost", "127.0.0.1", "::1", self.host.lower())
        return own if self.local() else ("*",)

    def database_url(self) -> str:
        """Return the address of the class registry; it may hold a password."""
        return default_database(self.model) if self.database is None else self.database


def default_database(model: Path) -> str:
    """Return the address of the registry beside a model folder."""
    return f"sqlite:///{model.with_name(model.name + '.registry.sqlite')}"


def read_database_url(path: str | Path) -> str:
    """Read the address of the class registry from a file of one line, such as a mounted secret."""
    what = "the address of the class registry"
    with reading(path, what):
        words = Path(path).read_text(encoding="utf-8").split()
    if len(words) != 1:
        raise DataError(f"{path} must hold {what} and nothing else")
    return words[0]


def read_api_keys(path: str | Path) -> tuple[str, ...]:
    """Read API keys from a file: one per line; empty lines and lines that begin with # are skipped.

    A file that everybody on the machine may read is used, with a warning: secrets that a container
    platform mounts are often so, and nobody else is in the container.
    """
    path = Path(path)
    with reading(path, "API keys, one a line"):
        lines = path.read_text(encoding="utf-8").splitlines()
    keys: list[str] = []
    for number, line in enumerate(lines, start=1):
        key = line.strip()
        if key and not key.startswith("#"):
            _check_key(key, f"the API key in line {number} of {path}")
            keys.append(key)
    if not keys:
        raise DataError(f"{path} holds no API key; one a line is expected")
    if path.stat().st_mode & stat.S_IROTH:
        logger.warning("%s holds API keys and everybody on this machine may read it", path)
    return tuple(dict.fromkeys(keys))


def _check_host(name: str) -> None:
    """Refuse what no Host header can match."""
    bare = name.removeprefix("*.")
    if name != "*" and (not bare or not bare.isascii() or set(bare) & set("*?/@[] ")):
        raise DataError(
            f"the allowed host {name!r} is none; a name such as models.example.org, "
            "*.example.org, an address or * is expected"
        )


def _check_key(key: str, what: str) -> None:
    """Refuse a key that is easily guessed or that no HTTP header can carry; never show it."""
    if len(key) < MIN_KEY_LENGTH:
        raise DataError(f"{what} is too short; at least {MIN_KEY_LENGTH} characters are expected")
    if not (key.isascii() and key.isprintable()) or key != key.strip():
        raise DataError(f"{what} must be of printable ASCII characters, as HTTP headers are")
