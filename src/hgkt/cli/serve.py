"""`hgkt serve`: predictions and new classes over HTTP, with a page to try them."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hgkt._validation import import_extra
from hgkt.cli._common import Device, DeviceOption, RootOption, log, out
from hgkt.cli._model import ModelOption
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    from hgkt.serving import ServiceSettings

_MIB = 2**20
_FACTORY = "hgkt.serving.app:create_app_from_environment"
_MULTIPROCESS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
_PARTING_SECONDS = 10  # how long requests under way may take when the service is stopped

_PATIENCE_SECONDS = 60  # how long a worker may be silent before it is taken for dead


def serve_command(
    model: ModelOption,
    database: Annotated[
        str | None,
        typer.Option(
            "--database",
            envvar="HGKT_DATABASE",
            help="Class registry: sqlite:///FILE or postgresql://… "
            "[default: MODEL.registry.sqlite]",
            show_default=False,
        ),
    ] = None,
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
    access_log: Annotated[
        bool, typer.Option("--access-log", help="Log every request on stderr.")
    ] = False,
) -> None:
    """Serve a model: predict, and add or remove classes while it runs.

    Example: hgkt serve --model digits-model --data digits
    """
    for package in ("fastapi", "uvicorn", "sqlalchemy", "prometheus_client", "python_multipart"):
        import_extra(package, "serve")
    from hgkt.serving.settings import ServiceSettings, read_api_keys

    settings = ServiceSettings(
        model=model,
        database=database,
        host=host,
        port=port,
        workers=workers,
        api_keys=() if api_key_file is None else read_api_keys(api_key_file),
        allow_open=allow_open,
        samples=data,
        root=root,
        image_root=image_root,
        max_rows=max_rows,
        max_body_bytes=max_body_mib * _MIB,
        device=str(device),
        verify_key=verify_key,
    )
    _check(settings)
    settings = replace(settings, port=free_port(host, port))
    logging.basicConfig(format="%(levelname)s %(message)s", level=logging.WARNING)
    with _metrics_folder(workers > 1), _quiet_end():
        _run(settings, access_log)


def _check(settings: ServiceSettings) -> None:
    """Say what is wrong in the words of the command line, before anything is loaded."""
    if not settings.api_keys and not settings.allow_open and not settings.local():
        raise DataError(
            f"host {settings.host!r} can be reached from other machines, where anybody could add "
            "and remove classes; give --api-key-file, or say --allow-open"
        )
    settings.check()


def free_port(host: str, port: int) -> int:
    """Return `port`, or a free one for 0; refuse one that is taken.

    Parameters
    ----------
    host : str
        Address to listen at.
    port : int
        The port, or 0.
    """
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(address)
            return int(trial.getsockname()[1])
    except OSError as error:
        reason = error.strerror or error
        raise DataError(f"cannot listen at {host}, port {port}: {reason}") from None


def _run(settings: ServiceSettings, access_log: bool) -> None:
    import uvicorn

    from hgkt.serving import create_app

    # Logs belong on stderr; uvicorn writes those of requests on stdout.
    log_config = deepcopy(uvicorn.config.LOGGING_CONFIG)
    log_config["handlers"]["access"]["stream"] = "ext://sys.stderr"
    options: dict[str, Any] = {
        "log_config": log_config,
        "host": settings.host,
        "port": settings.port,
        "access_log": access_log,
        "log_level": "info" if access_log else "warning",
        "timeout_graceful_shutdown": _PARTING_SECONDS,
        "server_header": False,
    }
    # What is wrong with the model or the registry shows here, in one sentence, and not in a
    # worker that dies again and again.
    app = create_app(settings)
    _announce(settings, app.state.served.current().model)
    if settings.workers == 1:
        uvicorn.run(app, **options)
        return
    app.state.served.close()
    del app  # workers load their own; this process only watches them
    os.environ.update(settings.to_environment())
    if "timeout_worker_healthcheck" in signature(uvicorn.Config).parameters:
        # A worker that imports and loads on a busy machine is slow to answer, and not dead.
        options["timeout_worker_healthcheck"] = _PATIENCE_SECONDS
    uvicorn.run(_FACTORY, factory=True, workers=settings.workers, **options)


def _announce(settings: ServiceSettings, model: Any) -> None:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    n_classes, n_seen = len(model.classes_), len(model.seen_classes_)
    out.print(
        f"serving {settings.model} ({n_classes} classes, {n_classes - n_seen} of them added) at "
        f"http://{host}:{settings.port}",
        soft_wrap=True,
        markup=False,
    )
    if not settings.api_keys and not settings.local():
        log.print("anybody who reaches this address may add and remove classes", soft_wrap=True)


@contextmanager
def _metrics_folder(several: bool) -> Iterator[None]:
    """Give several workers a folder for their counts; prometheus_client reads it at import."""
    if not several or _MULTIPROCESS_FOLDER in os.environ:
        yield
        return
    folder = tempfile.mkdtemp(prefix="hgkt-metrics-")
    os.environ[_MULTIPROCESS_FOLDER] = folder
    try:
        yield
    finally:
        del os.environ[_MULTIPROCESS_FOLDER]
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _quiet_end() -> Iterator[None]:
    """Being told to stop is a good end: exit code 0, no traceback."""
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
