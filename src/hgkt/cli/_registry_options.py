"""Which class registry a command works on: a database, or a service that runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hgkt._validation import import_extra
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    from hgkt.serving.registry import ClassRegistry
    from hgkt.serving.served_model import ServedModel

ReasonOption = Annotated[
    str | None, typer.Option("--reason", help="Why, in words; it is kept in the log.")
]


DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database",
        envvar="HGKT_DATABASE",
        help="Class registry: sqlite:///FILE or postgresql://… [default: MODEL.registry.sqlite]",
        show_default=False,
    ),
]
DatabaseFileOption = Annotated[
    Path | None,
    typer.Option(
        "--database-file",
        help="File that holds the address of the class registry, and with it the password.",
    ),
]


@dataclass
class DatabaseOptions:
    """The options that name the database of a class registry."""

    database: DatabaseOption = None
    database_file: DatabaseFileOption = None

    def address(self, model: Path | None = None, new: bool = False) -> str:
        """Return the address of the registry, by default of the one beside a model folder.

        Parameters
        ----------
        model : Path, optional
            The model folder.
        new : bool
            Whether the registry may be one that is not there yet.
        """
        import_extra("sqlalchemy", "serve")
        from hgkt.serving.settings import ServiceSettings, read_database_url

        if self.database_file is not None:
            url = read_database_url(self.database_file)
        elif self.database is not None:
            url = self.database
        elif model is not None:
            url = ServiceSettings(model).database_url()
        else:
            raise DataError("say which class registry: --database or --database-file")
        if not new:
            _refuse_missing(url)
        return url


def _refuse_missing(url: str) -> None:
    """Refuse a SQLite file that is not there, which opening would make."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        found = make_url(url)
    except (ArgumentError, ValueError):
        return  # opening it says what is wrong
    file = (found.database or "").removeprefix("file:")
    if found.get_backend_name() == "sqlite" and file and not Path(file).is_file():
        raise DataError(f"there is no class registry {file}")


def load(folder: Path) -> Any:
    """Load the model of a folder."""
    from hgkt.estimators import load_model

    return load_model(folder)


@contextmanager
def registry_of(url: str, model: Path) -> Iterator[ClassRegistry]:
    """Open the registry of the model of a folder; refuse one that the database does not know."""
    from hgkt.serving.catalog import ModelCatalog
    from hgkt.serving.identity import model_identity
    from hgkt.serving.registry import ClassRegistry

    identity = model_identity(load(model))
    with ModelCatalog(url) as catalog:
        catalog.find(identity)
    with ClassRegistry(url, identity) as registry:
        yield registry


@contextmanager
def served(url: str, loaded: Any, trial: bool = False) -> Iterator[ServedModel]:
    """Open a model with its classes in a registry; nothing listens.

    Parameters
    ----------
    url : str
        The registry's address.
    loaded : GZSLClassifier
        The model.
    trial : bool
        Whether the database must stay as it is: one that does not know the model does not get to
        know it.
    """
    from hgkt.serving.catalog import ModelCatalog
    from hgkt.serving.identity import model_identity
    from hgkt.serving.registry import ClassRegistry
    from hgkt.serving.served_model import ServedModel

    identity = model_identity(loaded)
    with ExitStack() as stack:
        if trial:
            with ModelCatalog(url) as catalog:
                known = {one.model_id for one in catalog.models()}
            if identity not in known:
                folder = stack.enter_context(TemporaryDirectory(prefix="hgkt-trial-"))
                url = f"sqlite:///{folder}/classes.sqlite"
        registry = stack.enter_context(ClassRegistry(url, identity))
        yield ServedModel(loaded, registry)
