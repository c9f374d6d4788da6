"""`hgkt serve`: predictions and new classes over HTTP, with a page to try them."""

from __future__ import annotations

import logging.config
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hgkt._processes import passing_folder, sweep_folders
from hgkt._validation import import_extra
from hgkt.cli._options import Device, DeviceOption, ModelOption, RootOption, with_options
from hgkt.cli._output import log, note, out
from hgkt.cli._registry import DatabaseOptions

if TYPE_CHECKING:
    from socket import socket

    from hgkt.serving import ServiceSettings

_MULTIPROCESS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
_SHARED = "hgkt-serve-"
_PACKAGES = (
    "fastapi",
    "uvicorn",
    "sqlalchemy",
    "prometheus_client",
    "python_multipart",
    "msgspec",
    "pydantic_settings",
)


class Guarded(StrEnum):
    """What needs an API key."""

    changes = "changes"
    all = "all"


class LogFormat(StrEnum):
    """How a line of the log looks."""

    text = "text"
    json = "json"


@with_options
def serve_command(
    model: ModelOption,
    registry: DatabaseOptions,
    host: str = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8000,
    workers: Annotated[int, typer.Option(min=1)] = 1,
    api_key_file: Path | None = None,
    allow_open: bool = False,
    require_key: Guarded = Guarded.changes,
    data: str | None = None,
    root: RootOption = None,
    device: DeviceOption = Device.cpu,
    allowed_host: Annotated[list[str] | None, typer.Option(show_default=False)] = None,
    keep_unknown: str | None = None,
    access_log: bool = False,
    grace: Annotated[float, typer.Option(min=0, max=3600)] = 5.0,
    shutdown_timeout: Annotated[float, typer.Option(min=0, max=3600)] = 10.0,
    log_format: LogFormat = LogFormat.text,
    adopt: str | None = None,
) -> None:
    """Serve a model: predict, and add or remove classes while it runs.

    Example: hgkt serve --model digits-model --data digits

    Limits and rarer settings are environment variables, such as HGKT_SERVE_MAX_ROWS.

    Parameters
    ----------
    host
        Address to listen at.
    port
        Port; 0 takes a free one.
    workers
        Number of server processes.
    api_key_file
        File of keys, one per line, that may change classes.
    allow_open
        Listen beyond this machine although no key is asked.
    require_key
        What needs a key: changes of classes, or all but the probes /health and /ready.
    data
        Data set whose test instances the page offers to try.
    allowed_host
        Name that requests may call the service by; repeatable, * is any. [default: names of
        this machine, or any where others can reach it]
    keep_unknown : DIR|database
        Keep the features of rejected items in a folder, or in the registry's database.
    access_log
        Log every request on stderr.
    grace
        Seconds in which /ready says 503 and requests are still taken after a signal to stop; a
        second signal skips them.
    shutdown_timeout
        Seconds that requests under way may take after that.
    log_format
        Lines of the log: text or JSON objects.
    adopt : OLD
        Take over the classes of another model in the registry: the beginning of its identity,
        or its folder.
    """
    with ExitStack() as stack:
        ended = stack.enter_context(_signals_end())
        sweep_folders(_SHARED)
        if workers > 1:
            ended.folder = stack.enter_context(passing_folder(_SHARED))
            # prometheus_client reads it at import, for all workers.
            os.environ.setdefault(_MULTIPROCESS_FOLDER, str(ended.folder))
        for package in _PACKAGES:
            import_extra(package, "serve")
        from hgkt.serving.logs import logging_config
        from hgkt.serving.server import bind_sockets, close_sockets
        from hgkt.serving.settings import ServiceSettings, read_api_keys

        logging.config.dictConfig(logging_config(log_format.value, access_log))
        given: dict[str, Any] = {
            "database": registry.given,
            "api_keys": None if api_key_file is None else read_api_keys(api_key_file),
            "samples": data,
            "root": root,
            "keep_unknown": keep_unknown,
            "allowed_hosts": tuple(allowed_host or ()) or None,
        }
        settings = ServiceSettings(
            model,
            host=host,
            port=port,
            workers=workers,
            allow_open=allow_open,
            require_key=require_key.value,
            device=str(device),
            grace_seconds=grace,
            shutdown_seconds=shutdown_timeout,
            **{name: value for name, value in given.items() if value is not None},
        )
        if adopt is not None:
            _adopt(settings, adopt)
        sockets = bind_sockets(host, port)
        stack.callback(close_sockets, sockets)
        settings = settings.model_copy(update={"port": sockets[0].getsockname()[1]})
        log_config = logging_config(log_format.value, access_log, settings.api_keys)
        _run(settings, log_config, sockets)


def _adopt(settings: ServiceSettings, old: str) -> None:
    """Have the model that is served take over the classes of another in its registry."""
    from hgkt.estimators import load_model
    from hgkt.serving.live_model import ServedModel
    from hgkt.serving.transfer import ModelFacts, adopt_classes, find_source

    name = settings.name()
    source = find_source(settings.database_url(), old)
    loaded = load_model(settings.model)
    with ServedModel.open(loaded, settings) as served:
        transfer, revision = adopt_classes(source, served, ModelFacts.of(loaded, name))
    noun = "class" if len(transfer.moving) == 1 else "classes"
    done = f"{name} took over {len(transfer.moving)} {noun} of {transfer.source}"
    note(done if revision is not None else f"{name} has all classes of {transfer.source}")
    for left in transfer.left_examples:
        note(f"examples of {left.name} stay behind: {left.reason}")


def _run(settings: ServiceSettings, log_config: dict[str, Any], sockets: list[socket]) -> None:
    """Serve in this process, or in several."""
    logging.config.dictConfig(log_config)
    from hgkt.serving.app import check_folder, create_app
    from hgkt.serving.server import ServiceServer, Supervisor

    def announce(n_classes: int, n_added: int) -> None:
        _announce(settings, n_classes, n_added)

    if settings.workers == 1:
        app = create_app(settings)
        edition = app.state.served.current()
        announce(len(edition.names), edition.n_added)
        ServiceServer(app, settings, log_config, alone=True).run(sockets)
        return
    settings = settings.model_copy(update={"model_digest": check_folder(settings)})
    if not Supervisor(settings, sockets, log_config, announce).run():
        raise typer.Exit(1)


def _announce(settings: ServiceSettings, n_classes: int, n_added: int) -> None:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    out.print(
        f"serving {settings.model} ({n_classes} classes, {n_added} of them added) at "
        f"http://{host}:{settings.port}",
        soft_wrap=True,
        markup=False,
    )
    if not settings.api_keys and not settings.local():
        log.print("anybody who reaches this address may add and remove classes", soft_wrap=True)
    if settings.keep_unknown is not None:
        what = "images, texts and their features" if settings.keep_unknown_items else "features"
        log.print(
            f"{what} of rejected items are kept in {settings.keep_unknown}: at most "
            f"{settings.max_unknown}, for {settings.unknown_days:g} days",
            soft_wrap=True,
            markup=False,
        )


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
