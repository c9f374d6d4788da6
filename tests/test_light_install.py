"""A plain installation: everything but networks, entropic transport and figures works."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.endure

# The import system finds none of the heavy packages.
BLOCK = """
import sys
from importlib.machinery import PathFinder
import pytest

find = PathFinder.find_spec

def find_light(name, *rest):
    heavy = name.partition(".")[0] in {"torch", "ot", "matplotlib", "jinja2"}
    return None if heavy else find(name, *rest)

PathFinder.find_spec = staticmethod(find_light)
"""


def run(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    program = BLOCK + textwrap.dedent(code)
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


def test_the_default_model_trains_grows_predicts_and_is_saved_without_torch(tmp_path):
    result = run(
        """
        import hgkt
        from hgkt.evaluation import evaluate
        from hgkt.estimators.methods import METHODS, build_method

        data = hgkt.load_dataset("digits")
        X, y = data.rows("train")
        model = hgkt.HGKTClassifier().fit(X, y, data.attributes_of(data.seen_classes))
        model.add_classes(data.attributes_of(data.unseen_classes))
        rows, truth = data.rows("test_unseen")
        model.save(sys.argv[1])
        loaded = hgkt.load_model(sys.argv[1])
        assert (loaded.predict(rows, among="unseen") == truth).mean() > 0.8
        build_method("eszsl").fit(X, y, data.attributes_of(data.seen_classes))
        evaluate(hgkt.HGKTClassifier(), data)
        for name in ("hgkt-network", "dem", "psrzsl", "cn-zsl", "cada-vae"):
            try:
                build_method(name).fit(X, y, data.attributes_of(data.seen_classes))
            except hgkt.HGKTError as error:
                print(name, error)
        for attempt in (
            lambda: hgkt.HGKTClassifier(device="cuda").fit(X, y),
            lambda: hgkt.HGKTNetworkClassifier(representative="sinkhorn").fit(X, y),
        ):
            try:
                attempt()
            except hgkt.HGKTError as error:
                print(error)
        """,
        tmp_path / "model",
    )
    assert result.returncode == 0, result.stderr
    needs = "this needs the package {!r}; install it with pip install 'hgkt[{}]'"
    torch = needs.format("torch", "network")
    methods = ("hgkt-network", "dem", "psrzsl", "cn-zsl", "cada-vae")
    expected = [f"{name} {torch}" for name in methods] + [torch, torch]
    assert result.stdout.splitlines() == expected


def test_the_command_line_works_without_torch_and_says_what_is_missing(tmp_path):
    code = "from hgkt.cli.main import run; run()"
    shown = run(code, "demo")
    assert shown.returncode == 0, shown.stderr
    assert "six" in shown.stdout
    found = run(code, "evaluate", "--data", "digits", "--json")
    assert found.returncode == 0, found.stderr
    refused = run(code, "reproduce", "--data", "digits", "--out", tmp_path / "report")
    assert refused.returncode == 1
    assert "pip install 'hgkt[report]'" in refused.stderr
    paper = run(code, "evaluate", "--data", "digits", "--preset", "paper")
    assert paper.returncode == 1
    assert "pip install 'hgkt[network]'" in paper.stderr
    assert "Traceback" not in refused.stderr + paper.stderr
