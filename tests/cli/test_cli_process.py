"""The command line as a process of its own: exit codes, streams, Ctrl-C, start-up."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from hgkt import __version__
from hgkt.cli.main import app
from hgkt.estimators import load_model

pytestmark = pytest.mark.endure

ROOT = Path(__file__).parents[2]
HGKT = [sys.executable, "-m", "hgkt"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}


def hgkt(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [*HGKT, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=120)


def train_arguments(out: Path, n_steps: int) -> list[str]:
    values = ["optimizer=adam", "n_hidden=64", f"n_steps={n_steps}", "representative=euclidean"]
    params = [word for value in values for word in ("-p", value)]
    network = ["--preset", "exact", "--device", "cpu", *params]
    return ["train", "--out", str(out), "--with-unseen", *network]


def train_here(out: Path, n_steps: int) -> Any:
    """The same training without an interruption, in this process, on one thread as well."""
    import torch

    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        result = CliRunner().invoke(app, train_arguments(out, n_steps))
    finally:
        torch.set_num_threads(n_threads)
    assert result.exit_code == 0
    return load_model(out)


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is sent as a POSIX signal")
def test_train_interrupted_resumes_and_equals_an_uninterrupted_run(tmp_path):
    out, n_steps = tmp_path / "model", 800  # a checkpoint is written after 500
    checkpoint = tmp_path / "model.checkpoint"
    process = subprocess.Popen(
        [*HGKT, *train_arguments(out, n_steps), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    deadline = time.monotonic() + 150
    while not checkpoint.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert stdout == ""
    assert "run the same command again to resume" in stderr
    assert "Traceback" not in stderr
    assert checkpoint.is_file()
    assert not out.exists()
    rerun = hgkt(*train_arguments(out, n_steps), "--json")
    assert rerun.returncode == 0, rerun.stderr
    assert json.loads(rerun.stdout)["resumed"] is True
    assert "resuming from" in rerun.stderr
    assert not checkpoint.exists()
    resumed, straight = load_model(out), train_here(tmp_path / "other", n_steps)
    np.testing.assert_array_equal(resumed.loss_curve_, straight.loss_curve_)
    np.testing.assert_array_equal(resumed.class_embeddings_, straight.class_embeddings_)
    assert resumed.get_params() == straight.get_params()


@pytest.mark.smoke
def test_json_stands_alone_on_stdout_and_logs_on_stderr(model_folder):
    result = hgkt("predict", "--model", model_folder, "--data", "digits", "--json")
    assert result.returncode == 0
    assert json.loads(result.stdout)["n_rows"] == 358
    assert "the model lacks 2 of these classes" in result.stderr


def test_errors_are_one_sentence_and_exit_code_one(tmp_path, model_folder):
    (tmp_path / "file").write_text("")
    config = model_folder / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"format_version": 9}))
    cases = [
        (["train", "--out", tmp_path / "file" / "m"], "is no folder"),
        (["predict", "--model", model_folder, "--data", "digits"], "format version 9"),
        (["evaluate", "--method", "nobody", "--data", "digits"], "unknown method 'nobody'"),
    ]
    for arguments, sentence in cases:
        result = hgkt(*arguments)
        assert result.returncode == 1
        assert result.stdout == ""
        assert result.stderr.startswith("error: ")
        assert sentence in result.stderr
        assert len(result.stderr.splitlines()) == 1


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from hgkt.cli.main import app; from typer.testing import CliRunner; "
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0; "
        "print([m for m in ('sklearn', 'scipy', 'pandas', 'torch', 'matplotlib', "
        "'hgkt.estimators', 'hgkt.evaluation') if m in sys.modules])"
    )
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_version_is_said_and_kept_in_one_place():
    assert hgkt("--version").stdout.strip() == f"hgkt {__version__}"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/hgkt/__init__.py"


def test_a_method_in_the_working_folder_is_evaluated(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from hgkt import HGKTClassifier\nclass Mine(HGKTClassifier):\n    pass\n"
    )
    command = [*HGKT, "evaluate", "--method", "mine:Mine", "--json"]
    environment = {**ENVIRONMENT, "PYTHONPATH": str(ROOT / "src")}
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=120, cwd=tmp_path, env=environment
    )
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["method"] == "Mine"


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
def test_an_interrupt_while_it_is_imported_ends_it_whatever_libraries_catch(tmp_path):
    (tmp_path / "typer.py").write_text(
        "import os, signal, time\n"
        "try:\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(5)\n"
        "except BaseException:\n"
        "    raise SystemExit(7) from None\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    ended = subprocess.run([*HGKT, "--version"], env=environment, timeout=60)
    assert ended.returncode == -signal.SIGINT
