"""`hgkt serve`: a model over HTTP."""

from __future__ import annotations

import logging.config
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from hgkt._processes import passing_folder, sweep_folders
from hgkt._validation import import_extra
from hgkt.cli._options import Device, with_options
from hgkt.cli._output import note, say
from hgkt.cli._registry import DatabaseOptions, TransferOptions, transfer_lines

if TYPE_CHECKING:
    from socket import socket

    from hgkt.serving import ServiceSettings

_MULTIPROCESS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
_SHARED = "hgkt-serve-"
_PACKAGES = ("fastapi", "uvicorn", "sqlalchemy", "python_multipart", "msgspec", "pydantic_settings")


@dataclass(frozen=True)
class SettingsOptions:
    """The settings that are options too: fields of `ServiceSettings`, each under its name there.

    What is not given is left to the environment variable of the setting, or its default.

    Parameters
    ----------
    host : default 127.0.0.1
        Address to listen at.
    port : default 8000
        Port; 0 takes a free one.
    workers : default 1
        Number of server processes.
    allow_open
        Listen beyond this machine although no key is asked.
    require_key : default changes
        What needs a key: changes of classes, or all but the probes /health and /ready.
    samples
        Data set whose test instances the page offers to try.
    device : default cpu
        Where images and texts are turned into features.
    allowed_hosts : default names of this machine, or any where others can reach it
        Name that requests may call the service by; repeatable, * is any.
    keep_unknown : DIR|database
        Keep the features of rejected items in a folder, or in the registry's database.
    grace_seconds : default 5
        Seconds in which /ready says 503 and requests are still taken after a signal to stop; a
        second signal skips them.
    shutdown_seconds : default 10
        Seconds that requests under way may take after that.
    """

    host: str | None = None
    port: int | None = None
    workers: int | None = None
    allow_open: bool = False
    require_key: Literal["changes", "all"] | None = None
    samples: Annotated[str | None, typer.Option("--data")] = None
    root: Path | None = None
    device: Device | None = None
    allowed_hosts: Annotated[list[str] | None, typer.Option("--allowed-host")] = None
    keep_unknown: str | None = None
    grace_seconds: Annotated[float | None, typer.Option("--grace")] = None
    shutdown_seconds: Annotated[float | None, typer.Option("--shutdown-timeout")] = None

    def given(self) -> dict[str, Any]:
        """Return what was given."""
        asked = {name: value for name, value in vars(self).items() if value is not None}
        return {name: value for name, value in asked.items() if value is not False}


@partial(with_options, has_result=False)
def serve_command(
    model: Path,
    registry: DatabaseOptions,
    options: SettingsOptions,
    api_key_file: Path | None = None,
    access_log: bool = False,
    log_format: Literal["text", "json"] = "text",
    adopt: str | None = None,
) -> None:
    """Serve a model: predict, and add or remove classes while it runs.

    Example: hgkt serve --model digits-model --data digits

    Limits and rarer settings are environment variables, such as HGKT_SERVE_MAX_ROWS.

    Parameters
    ----------
    api_key_file
        File of keys, one per line, that may change classes.
    access_log
        Log every request on stderr.
    log_format
        Lines of the log: text or JSON objects.
    adopt : OLD
        Take over the classes of another model in the registry: the beginning of its identity,
        or its folder.
    """
    with ExitStack() as stack:
        folders = stack.enter_context(_signals_end())
        sweep_folders(_SHARED)
        for package in _PACKAGES:
            import_extra(package, "serve")
        from hgkt.serving.logs import logging_config
        from hgkt.serving.settings import ServiceSettings, read_api_keys

        logging.config.dictConfig(logging_config(log_format, access_log))
        given = options.given()
        if api_key_file is not None:
            given["api_keys"] = read_api_keys(api_key_file)
        settings = ServiceSettings(model, registry.given, **given)
        if settings.workers > 1:
            folders.append(stack.enter_context(passing_folder(_SHARED)))
            # prometheus_client reads it at import, for all workers.
            os.environ.setdefault(_MULTIPROCESS_FOLDER, str(folders[0]))
        import_extra("prometheus_client", "serve")
        from hgkt.serving.server import bind_sockets, close_sockets

        if adopt is not None:
            transfer, _ = TransferOptions(adopt).carry(settings.database_url(), model)
            for line in transfer_lines(transfer):
                note(line)
        sockets = bind_sockets(settings.host, settings.port)
        stack.callback(close_sockets, sockets)
        settings = settings.model_copy(update={"port": sockets[0].getsockname()[1]})
        _run(settings, logging_config(log_format, access_log, settings.api_keys), sockets)


def _run(settings: ServiceSettings, log_config: dict[str, Any], sockets: list[socket]) -> None:
    """Serve in this process, or in several."""
    logging.config.dictConfig(log_config)
    from hgkt.serving.app import create_app
    from hgkt.serving.server import ServiceServer, Supervisor

    announce = partial(_announce, settings)
    if settings.workers == 1:
        app = create_app(settings)
        edition = app.state.served.current()
        announce(len(edition.names), edition.n_added)
        ServiceServer(app, settings, alone=True).run(sockets)
        return
    if not Supervisor(settings, sockets, log_config).run(announce):
        raise typer.Exit(1)


def _announce(settings: ServiceSettings, n_classes: int, n_added: int) -> None:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    say(
        f"serving {settings.model} ({n_classes} classes, {n_added} of them added) at "
        f"http://{host}:{settings.port}"
    )
    if not settings.api_keys and not settings.local():
        note("anybody who reaches this address may add and remove classes")
    if settings.keep_unknown is not None:
        what = "images, texts and their features" if settings.keep_unknown_items else "features"
        note(
            f"{what} of rejected items are kept in {settings.keep_unknown}: at most "
            f"{settings.max_unknown}, for {settings.unknown_days:g} days"
        )


@contextmanager
def _signals_end() -> Iterator[list[Path]]:
    """Until a server takes signals, and after it, have one end the process: with exit code 0.

    Not by an exception: one that is raised in a destructor, say, is told and forgotten.

    Yields
    ------
    list of Path
        Folders to delete then, for the caller to fill.
    """
    folders: list[Path] = []

    def end(*_details: object) -> None:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)

    before = {sign: signal.signal(sign, end) for sign in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield folders
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)
