"""Where a history is: in a database, or behind a service that runs."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from hgkt.cli._registry_options import DatabaseOptions, load, registry_of, served
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    from hgkt.client import Client
    from hgkt.serving.events import Origin


class History(Protocol):
    """A registry's history."""

    def events(self, after: int, limit: int, name: str | None) -> dict[str, Any]:
        """Return lines of the log, as ``GET /v1/events`` has them."""

    def rollback(self, revision: int, reason: str | None) -> dict[str, Any]:
        """Go back to a revision."""

    def prune(self, revision: int) -> dict[str, Any]:
        """Have the log begin with a revision."""


@dataclass
class HistoryOptions(DatabaseOptions):
    """The options that name a history: a model with its database, or a service."""

    model: Annotated[
        Path | None, typer.Option("--model", help="Model folder, as `hgkt train` writes it.")
    ] = None
    server: Annotated[
        str | None,
        typer.Option("--server", metavar="URL", help="A service that runs, instead of --model."),
    ] = None
    api_key_file: Annotated[
        Path | None, typer.Option("--api-key-file", help="File that holds a key of the service.")
    ] = None

    @contextmanager
    def opened(self) -> Iterator[History]:
        """Open the history that the options name."""
        if (self.server is None) == (self.model is None):
            raise DataError("say whose history: --model FOLDER, or --server URL")
        if self.server is None:
            assert self.model is not None
            yield DatabaseHistory(self.address(self.model), self.model)
            return
        from hgkt.client import Client
        from hgkt.serving.settings import read_api_keys

        key = None if self.api_key_file is None else read_api_keys(self.api_key_file)[0]
        with Client(self.server, key) as client:
            yield ServiceHistory(client)


class DatabaseHistory:
    """The history of a model in a database.

    Parameters
    ----------
    url : str
        The database's address.
    model : Path
        The model folder.
    """

    def __init__(self, url: str, model: Path) -> None:
        self._url, self._model = url, model

    def events(self, after: int, limit: int, name: str | None) -> dict[str, Any]:
        """Return lines of the log, as ``GET /v1/events`` has them."""
        from hgkt.serving.routes.history import EventLine

        with registry_of(self._url, self._model) as registry:
            lines = [EventLine.of(event) for event in registry.events(after, limit, name)]
            return {
                "revision": registry.revision(),
                "oldest": registry.oldest(),
                "events": [line.model_dump() for line in lines],
            }

    def rollback(self, revision: int, reason: str | None) -> dict[str, Any]:
        """Go back to a revision, where its classes still fit the model."""
        with served(self._url, load(self._model)) as model:
            edition = model.rollback(revision, origin=own_origin(reason))
        return {
            "revision": edition.revision,
            "target": revision,
            "n_classes": len(edition.names),
        }

    def prune(self, revision: int) -> dict[str, Any]:
        """Have the log begin with a revision."""
        with registry_of(self._url, self._model) as registry:
            n_removed = registry.prune(revision)
            return {"oldest": registry.oldest(), "n_removed": n_removed}


class ServiceHistory:
    """The history of a model behind a service.

    Parameters
    ----------
    client : Client
        Asks the service.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    def events(self, after: int, limit: int, name: str | None) -> dict[str, Any]:
        """Return lines of the log."""
        lines = islice(self._client.events(after, name), limit)
        return {
            "revision": self._client.model()["revision"],
            "oldest": self._client.oldest(),
            "events": [vars(line) for line in lines],
        }

    def rollback(self, revision: int, reason: str | None) -> dict[str, Any]:
        """Go back to a revision."""
        change = self._client.rollback(revision, reason=reason)
        return {"revision": change.revision, "target": revision, "n_classes": change.n_classes}

    def prune(self, revision: int) -> dict[str, Any]:
        """Have the log begin with a revision."""
        return {"oldest": revision, "n_removed": self._client.prune(revision)}


def own_origin(reason: str | None) -> Origin:
    """Return who works on a database here, and why."""
    from hgkt.serving.events import Origin

    try:
        who: str | None = getpass.getuser()[:32]
    except (OSError, KeyError, ImportError):  # a container's user may have no name
        who = None
    return Origin(who, reason)
