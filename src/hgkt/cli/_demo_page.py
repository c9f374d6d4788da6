"""`hgkt demo --page`: the service on the embedded digits, with its page in the browser."""

from __future__ import annotations

import tempfile
import threading
import time
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hgkt._validation import import_extra
from hgkt.cli._common import emit, log, out

if TYPE_CHECKING:
    from hgkt.data import GZSLDataset

HOST = "127.0.0.1"
_PARTING_SECONDS = 2  # how long requests under way may take when the demo is stopped
_TRY = (
    "light the segments of a six (a c d e f g), name it, press Add class: it appears on the map",
    "then draw a six, or pick one of the samples; a two is a b d e g",
    "Ctrl-C ends the demo; nothing is kept",
)


def run_page(dataset: GZSLDataset, model: Any, port: int, browser: bool, as_json: bool) -> None:
    """Serve a model of the digits on this machine until Ctrl-C.

    Parameters
    ----------
    dataset : GZSLDataset
        The digits, of which the page offers test images.
    model : GZSLClassifier
        Fitted on the seen digits.
    port : int
        Where to listen; 0 takes any that is free.
    browser : bool
        Whether to open the page in the browser.
    as_json : bool
        Whether the address is printed as JSON.
    """
    with tempfile.TemporaryDirectory(prefix="hgkt-demo-", ignore_cleanup_errors=True) as folder:
        path = model.save(Path(folder) / dataset.name, **_about(dataset))
        try:
            _serve(path, dataset, port, browser, as_json)
        except KeyboardInterrupt:
            # How this demo is meant to end.
            log.print("stopped", soft_wrap=True)


def check_extra() -> None:
    """Refuse before anything is trained where the service cannot run."""
    for package in ("fastapi", "uvicorn", "sqlalchemy", "prometheus_client", "multipart", "plotly"):
        import_extra(package, "serve")


def _about(dataset: GZSLDataset) -> dict[str, Any]:
    made = ("features", "attributes", "attribute_blocks", "pixels")
    return {
        "data": dataset.name,
        "attribute_names": [*(dataset.attribute_names or ())],
        **{key: dataset.about[key] for key in made},
    }


def _serve(path: Path, dataset: GZSLDataset, port: int, browser: bool, as_json: bool) -> None:
    import uvicorn

    from hgkt.cli.serve import free_port
    from hgkt.serving import ServiceSettings, create_app

    port = free_port(HOST, port)
    app = create_app(ServiceSettings(model=path, host=HOST, port=port, samples=dataset.name))
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            host=HOST,
            port=port,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_PARTING_SECONDS,
        )
    )
    address = f"http://{HOST}:{port}/"
    hidden = dataset.names(dataset.unseen_classes)
    # The browser may only come once somebody listens, and may block: some run in the terminal.
    announce = (server, address, hidden, browser, as_json)
    threading.Thread(target=_announce, args=announce, daemon=True).start()
    server.run()


def _announce(server: Any, address: str, hidden: list[str], browser: bool, as_json: bool) -> None:
    while not server.started:
        if server.should_exit:
            return
        time.sleep(0.02)
    emit({"address": address, "hidden": hidden}, as_json, lambda: _render(address, hidden))
    if browser and not webbrowser.open(address):
        log.print("no browser was found; open the address by hand", soft_wrap=True)


def _render(address: str, hidden: list[str]) -> None:
    never = " and ".join(hidden)
    for line in (f"the page is at {address}; never shown to the model: {never}", *_TRY):
        out.print(line, soft_wrap=True, markup=False)
