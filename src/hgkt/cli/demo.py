"""`hgkt demo`: learn eight digits, then recognise one that was never shown."""

from __future__ import annotations

import tempfile
import threading
import time
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from hgkt._validation import import_extra
from hgkt.cli._options import with_options
from hgkt.cli._output import emit, note, progress_bar, say

if TYPE_CHECKING:
    from hgkt.data import GZSLDataset

_HIDDEN = "six"
_N_IMAGES = 10
_HOST = "127.0.0.1"
_PARTING_SECONDS = 2  # how long requests under way may take when the demo is stopped
_TRY = (
    "light the segments of a six (a c d e f g), name it, press Add class: it appears on the map",
    "then draw a six, or pick one of the samples; a two is a b d e g",
    "Ctrl-C ends the demo; nothing is kept",
)


@with_options
def demo_command(
    page: bool = False,
    port: Annotated[int, typer.Option(min=0, max=65535)] = 0,
    browser: bool = True,
    seed: int = 0,
) -> None:
    """Learn eight digits, and add one by its attributes.

    Example: hgkt demo

    Parameters
    ----------
    page
        Serve the page instead, and add digits by hand.
    port
        Of the page; 0 takes a free one.
    browser
        Whether to open the page.
    """
    from hgkt.data import load_dataset
    from hgkt.estimators import HGKTClassifier
    from hgkt.evaluation import evaluate

    start = time.perf_counter()
    if page:
        for package in ("fastapi", "uvicorn", "plotly"):
            import_extra(package, "serve")
    dataset, tested = load_dataset("digits"), list[Any]()
    with progress_bar() as progress:
        record = evaluate(
            HGKTClassifier(device="cpu"),
            dataset,
            select=True,
            random_state=seed,
            progress=progress,
            on_test=lambda model, _: tested.append(model),
        )
    (model,) = tested
    # The test needed the unseen digits.
    model.remove_classes(dataset.names(dataset.unseen_classes))
    if page:
        try:
            _serve_page(dataset, model, port, browser)
        except KeyboardInterrupt:
            note("stopped")  # how this demo is meant to end
        return
    document = {
        "data": dataset.summary(),
        "results": record.metrics.to_dict() | {"calibration": record.calibration},
        "hidden": _hidden_digit(model, dataset, seed),
        "seed": seed,
        "seconds": time.perf_counter() - start,
    }
    emit(document, lambda: _render(dataset, document))


def _hidden_digit(model: Any, dataset: GZSLDataset, seed: int) -> dict[str, Any]:
    """Predict images of one hidden digit before and after its class is added."""
    code = dataset.class_names.index(_HIDDEN)
    X = dataset.features[dataset.labels == code]
    shown = np.random.default_rng(seed).choice(len(X), _N_IMAGES, replace=False)
    before = model.predict(X[shown]).tolist()
    start = time.perf_counter()
    model.add_classes(dataset.attributes_of([code]))
    milliseconds = 1000 * (time.perf_counter() - start)
    found = model.predict(X)
    return {
        "class": _HIDDEN,
        "before": before,
        "after": found[shown].tolist(),
        "n_right": int((found[shown] == _HIDDEN).sum()),
        "accuracy": 100 * float((found == _HIDDEN).mean()),
        "add_milliseconds": milliseconds,
        "sources": model.explain_class(_HIDDEN).to_dict()["sources"],
    }


def _render(dataset: GZSLDataset, document: dict[str, Any]) -> None:
    hidden, figures = document["hidden"], document["results"]
    unseen = ", ".join(dataset.names(dataset.unseen_classes))
    made = ", ".join(f"{one['label']} {one['weight']:+.2f}" for one in hidden["sources"][:5])
    say(
        f"{len(dataset.train)} images of {len(dataset.seen_classes)} digits to learn from; "
        f"never shown: {unseen}",
        f"accuracy on them {figures['ts']:.1f} %, on the others {figures['tr']:.1f} %; "
        f"H {figures['H']:.1f}, AUSUC {figures['ausuc']:.1f}",
        f"ten images of a {_HIDDEN} before it was added: {', '.join(hidden['before'])}",
        f"after adding {_HIDDEN!r}: {', '.join(hidden['after'])}",
        f"{_HIDDEN} was added by its attributes in {hidden['add_milliseconds']:.1f} ms; of all "
        f"images of it {hidden['accuracy']:.0f} % are right now",
        f"it was made from {made}",
        "plain ridge regression is as good on digits this small (hgkt evaluate --method ridge "
        "--select); docs/methods.md has every method on real data",
        f"{document['seconds']:.1f} s in all",
    )


def _serve_page(dataset: GZSLDataset, model: Any, port: int, browser: bool) -> None:
    """Serve a model of the digits on this machine until Ctrl-C."""
    import uvicorn

    from hgkt.serving import ServiceSettings, create_app
    from hgkt.serving.server import bind_sockets

    with tempfile.TemporaryDirectory(prefix="hgkt-demo-", ignore_cleanup_errors=True) as folder:
        path = model.save(Path(folder) / dataset.name, **dataset.provenance())
        sockets = bind_sockets(_HOST, port)
        port = sockets[0].getsockname()[1]
        app = create_app(ServiceSettings(path, host=_HOST, port=port, samples=dataset.name))
        quiet: Any = {"log_level": "warning", "access_log": False, "server_header": False}
        config = uvicorn.Config(app, **quiet, timeout_graceful_shutdown=_PARTING_SECONDS)
        # The port listens already: who comes before the server runs waits in its queue.
        address, hidden = f"http://{_HOST}:{port}/", dataset.names(dataset.unseen_classes)
        head = f"the page is at {address}; never shown to the model: {' and '.join(hidden)}"
        emit({"address": address, "hidden": hidden}, head, *_TRY)
        if browser:  # which may block: some run in the terminal
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        uvicorn.Server(config).run(sockets)
