"""`hgkt serve`: predictions and new classes over HTTP, with a page to try them."""

from __future__ import annotations

import logging.config
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hgkt._processes import passing_folder, sweep_folders
from hgkt._validation import import_extra
from hgkt.cli._adopting import adopt_served
from hgkt.cli._options import Device, DeviceOption, RootOption
from hgkt.cli._output import log, out
from hgkt.cli._registry_options import DatabaseFileOption, DatabaseOption
from hgkt.cli._served_models import ServedModelsOption, read_models
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    from socket import socket

    from fastapi import FastAPI

    from hgkt.serving import ServiceSettings
    from hgkt.serving.editions import Edition

_MIB = 2**20
_MULTIPROCESS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
_SHARED = "hgkt-serve-"


class Guarded(StrEnum):
    """What needs an API key."""

    changes = "changes"
    all = "all"


class LogFormat(StrEnum):
    """How a line of the log looks."""

    text = "text"
    json = "json"


def serve_command(
    model: ServedModelsOption,
    database: DatabaseOption = None,
    database_file: DatabaseFileOption = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port; 0 takes a free one.")
    ] = 8000,
    workers: Annotated[
        int, typer.Option("--workers", min=1, help="Number of server processes.")
    ] = 1,
    api_key_file: Annotated[
        Path | None,
        typer.Option("--api-key-file", help="File of keys, one per line, that may change classes."),
    ] = None,
    allow_open: Annotated[
        bool,
        typer.Option("--allow-open", help="Listen beyond this machine although no key is asked."),
    ] = False,
    require_key: Annotated[
        Guarded,
        typer.Option(
            "--require-key",
            help="What needs a key: changes of classes, or all but the probes /health and /ready.",
        ),
    ] = Guarded.changes,
    data: Annotated[
        str | None,
        typer.Option("--data", help="Data set whose test instances the page offers to try."),
    ] = None,
    root: RootOption = None,
    image_root: Annotated[
        Path | None, typer.Option("--image-root", help="Folder of the images of --data.")
    ] = None,
    device: DeviceOption = Device.cpu,
    max_rows: Annotated[
        int, typer.Option("--max-rows", min=1, help="Most rows per request.")
    ] = 4096,
    max_body_mib: Annotated[
        int, typer.Option("--max-body-mib", min=1, help="Largest body of a request, in MiB.")
    ] = 64,
    verify_key: Annotated[
        Path | None,
        typer.Option("--verify-key", help="Public key; serve only what its owner signed."),
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allowed-host",
            help="Name that requests may call the service by; repeatable, * is any. "
            "[default: names of this machine, or any where others can reach it]",
            show_default=False,
        ),
    ] = None,
    max_bodies_mib: Annotated[
        int, typer.Option("--max-bodies-mib", min=1, help="Bodies that a worker holds, in MiB.")
    ] = 256,
    max_waiting: Annotated[
        int, typer.Option("--max-waiting", min=1, help="Predictions that may wait per worker.")
    ] = 128,
    max_connections: Annotated[
        int, typer.Option("--max-connections", min=1, help="Open connections per worker.")
    ] = 1000,
    client_seconds: Annotated[
        float, typer.Option("--client-seconds", help="How long to wait for a slow client.")
    ] = 10.0,
    access_log: Annotated[
        bool, typer.Option("--access-log", help="Log every request on stderr.")
    ] = False,
    grace: Annotated[
        float,
        typer.Option(
            "--grace",
            min=0,
            max=3600,
            help="Seconds in which /ready says 503 and requests are still taken after a signal to "
            "stop; a second signal skips them.",
        ),
    ] = 5.0,
    shutdown_timeout: Annotated[
        float,
        typer.Option(
            "--shutdown-timeout",
            min=0,
            max=3600,
            help="Seconds that requests under way may take after that.",
        ),
    ] = 10.0,
    log_format: Annotated[
        LogFormat, typer.Option("--log-format", help="Lines of the log: text or JSON objects.")
    ] = LogFormat.text,
    alias: Annotated[
        str,
        typer.Option(
            "--alias", help="Name that stands for the current one of several models; kept."
        ),
    ] = "current",
    adopt: Annotated[
        str | None,
        typer.Option(
            "--adopt",
            metavar="OLD",
            help="Take over the classes of another model in the registry: the beginning of its "
            "identity, its folder, or the name of one that is served too.",
        ),
    ] = None,
) -> None:
    """Serve a model: predict, and add or remove classes while it runs.

    Example: hgkt serve --model digits-model --data digits

    Example: hgkt serve --model v1=old --model v2=new --database sqlite:///classes.sqlite
    """
    with ExitStack() as stack:
        ended = stack.enter_context(_signals_end())
        for package in (
            "fastapi",
            "uvicorn",
            "sqlalchemy",
            "prometheus_client",
            "python_multipart",
            "msgspec",
        ):
            import_extra(package, "serve")
        from hgkt.serving.logs import logging_config
        from hgkt.serving.settings import ServiceSettings, read_api_keys, read_database_url

        logging.config.dictConfig(logging_config(log_format.value, access_log))
        named, beside = read_models(model)
        settings = ServiceSettings(
            model=named.folder,
            called=named.name,
            beside=tuple(beside),
            alias=alias,
            database=database if database_file is None else read_database_url(database_file),
            host=host,
            port=port,
            workers=workers,
            api_keys=() if api_key_file is None else read_api_keys(api_key_file),
            allow_open=allow_open,
            require_key=require_key.value,
            samples=data,
            root=root,
            image_root=image_root,
            max_rows=max_rows,
            max_body_bytes=max_body_mib * _MIB,
            allowed_hosts=tuple(allowed_host or ()),
            max_bodies_bytes=max_bodies_mib * _MIB,
            max_waiting=max_waiting,
            max_connections=max_connections,
            client_seconds=client_seconds,
            device=str(device),
            verify_key=verify_key,
            grace_seconds=grace,
            shutdown_seconds=shutdown_timeout,
        )
        _check(settings)
        if adopt is not None:
            adopt_served(settings, adopt)
        sockets = listen_at(host, port)
        for sock in sockets:
            stack.callback(sock.close)
        settings = replace(settings, port=sockets[0].getsockname()[1])
        log_config = logging_config(log_format.value, access_log, settings.api_keys)
        sweep_folders(_SHARED)
        folder = stack.enter_context(passing_folder(_SHARED)) if workers > 1 else None
        ended.folder = folder
        _run(settings, log_config, sockets, folder)


def _check(settings: ServiceSettings) -> None:
    """Say what is wrong in the words of the command line, before anything is loaded."""
    if not settings.api_keys and not settings.allow_open and not settings.local():
        raise DataError(
            f"host {settings.host!r} can be reached from other machines, where anybody could add "
            "and remove classes; give --api-key-file, or say --allow-open"
        )
    if settings.beside and settings.database is None:
        raise DataError(
            "several models keep their classes in one class registry; say which with --database"
        )
    settings.check()


def listen_at(host: str, port: int) -> list[socket]:
    """Take a port, or a free one for 0, at all addresses of a host; refuse one that is taken."""
    from hgkt.serving.server import bind_sockets

    return bind_sockets(host, port)


def free_port(host: str, port: int) -> int:
    """Return `port`, or a free one for 0; refuse one that is taken.

    Parameters
    ----------
    host : str
        Address to listen at.
    port : int
        The port, or 0.
    """
    sockets = listen_at(host, port)
    found: int = sockets[0].getsockname()[1]
    for sock in sockets:
        sock.close()
    return found


def _run(
    settings: ServiceSettings,
    log_config: dict[str, Any],
    sockets: list[socket],
    folder: Path | None,
) -> None:
    from hgkt.serving.connections import PROTOCOL

    logging.config.dictConfig(log_config)
    options: dict[str, Any] = {
        "log_config": log_config,
        "host": settings.host,
        "port": settings.port,
        "access_log": False,  # the service writes its own lines
        "server_header": False,
        "http": PROTOCOL,
        "ws": "none",
    }
    if folder is None:
        _run_alone(settings, sockets, options)
    else:
        _run_workers(settings, sockets, options, folder)


def _run_alone(settings: ServiceSettings, sockets: list[socket], options: dict[str, Any]) -> None:
    from hgkt.serving import create_app
    from hgkt.serving.server import Ending, ServiceServer

    app = create_app(settings)
    _announce(settings, app)
    ending = Ending(settings.grace_seconds, settings.shutdown_seconds)
    ServiceServer(app, ending, **options).run(sockets)


def _run_workers(
    settings: ServiceSettings, sockets: list[socket], options: dict[str, Any], folder: Path
) -> None:
    metrics = folder / "metrics"
    metrics.mkdir()
    # prometheus_client reads it at import, here and in the workers.
    os.environ.setdefault(_MULTIPROCESS_FOLDER, str(metrics))
    from hgkt.serving import create_app
    from hgkt.serving.pins import pin_model
    from hgkt.serving.workers import Supervisor

    pin = pin_model(settings.model, folder / "model")
    beside = tuple(
        replace(other, pin=pin_model(other.folder, folder / f"model-{number}"))
        for number, other in enumerate(settings.beside, start=2)
    )
    settings = replace(settings, pin=pin, beside=beside)
    # What is wrong with the model or the registry shows here, in one sentence, and not in a
    # worker that dies again and again.
    app = create_app(settings)
    _announce(settings, app)
    settings = settings.in_file(app.state.served.registry.file)
    for served in app.state.models.values():
        served.close()
    del app, served  # workers load their own; this process only watches them
    if not Supervisor(settings, sockets, options).run():
        raise typer.Exit(1)


def _announce(settings: ServiceSettings, app: FastAPI) -> None:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    what = ", ".join(
        f"{name} ({_counted(served.current())})" for name, served in app.state.models.items()
    )
    if settings.beside:
        what += f", of which {app.state.switch.current} is {settings.alias},"
    else:
        what = f"{settings.model} ({_counted(app.state.served.current())})"
    out.print(
        f"serving {what} at http://{host}:{settings.port}",
        soft_wrap=True,
        markup=False,
    )
    if not settings.api_keys and not settings.local():
        log.print("anybody who reaches this address may add and remove classes", soft_wrap=True)


def _counted(edition: Edition) -> str:
    return f"{len(edition.names)} classes, {edition.n_added} of them added"


@dataclass
class _Ended:
    """What is left to do where a signal ends the process."""

    folder: Path | None = None

    def __call__(self, *_details: object) -> None:
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
        os._exit(0)


@contextmanager
def _signals_end() -> Iterator[_Ended]:
    """Until a server takes signals, and after it, have one end the process: with exit code 0.

    Not by an exception: one that is raised in a destructor, say, is told and forgotten.
    """
    end = _Ended()
    before = {sign: signal.signal(sign, end) for sign in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield end
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)
