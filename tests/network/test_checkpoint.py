"""A run that was stopped ends as if it had not been."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hgkt.exceptions import DataError
from hgkt.graph import ClassNeighbors, Quotient
from hgkt.network.loss import Targets
from hgkt.network.train import TrainingConfig, train_embedder

RNG = np.random.default_rng(0)
CODES = np.repeat(np.arange(3), [4, 2, 6])
X, P = RNG.random((12, 5)), RNG.random((3, 4))
QUOTIENT = Quotient([4, 2, 6], ClassNeighbors.from_rows([[1], [2], [0]]))
TARGETS = Targets.from_features(X, CODES, 3)
CONFIG = TrainingConfig(
    n_steps=60, n_hidden=6, learning_rate=0.01, device="cpu", batch_size=5,
    checkpoint_every=7, optimizer="adam",
)  # fmt: skip


def train(config: TrainingConfig, targets: Targets = TARGETS, **options: Any) -> Any:
    return train_embedder(QUOTIENT, P, targets, config, instances=(X, CODES), **options)


def assert_same(first: Any, second: Any) -> None:
    for name, array in first.weights.arrays().items():
        np.testing.assert_array_equal(array, second.weights.arrays()[name])
    np.testing.assert_array_equal(first.losses, second.losses)


def interrupt(stage: str, done: int, total: int, values: dict[str, float]) -> None:
    if done >= 40:
        raise KeyboardInterrupt


@pytest.mark.parametrize("n_sampled", [None, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_interrupted_run_resumes_to_the_same_bits(
    tmp_path: Path, n_sampled: int | None, dtype: str
) -> None:
    config = replace(CONFIG, n_sampled=n_sampled, dtype=dtype)
    whole = train(config)
    stored = replace(config, checkpoint=tmp_path / "run" / "a.safetensors")
    with pytest.raises(KeyboardInterrupt):
        train(stored, progress=interrupt)
    resumed = train(stored)
    assert resumed.resumed_from == 40  # the interrupt itself wrote, not only every 7th step
    assert_same(whole, resumed)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["a.safetensors"]


@pytest.mark.endure
def test_killed_run_resumes_to_the_same_bits(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    code = f"""
import os, signal, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from dataclasses import replace
from test_checkpoint import CONFIG, train
def kill(stage, done, total, values):
    if done >= 40:
        os.kill(os.getpid(), signal.SIGKILL)
train(replace(CONFIG, checkpoint={str(path)!r}), progress=kill)
"""
    killed = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    resumed = train(replace(CONFIG, checkpoint=path))
    assert resumed.resumed_from == 35
    assert_same(train(CONFIG), resumed)


def test_finished_run_returns_at_once_and_can_go_on(tmp_path: Path) -> None:
    stored = replace(CONFIG, checkpoint=tmp_path / "a.safetensors")
    first, again = train(stored), train(stored)
    assert again.resumed_from == 60
    assert_same(first, again)
    longer = train(replace(stored, n_steps=90))
    assert longer.resumed_from == 60
    assert_same(train(replace(CONFIG, n_steps=90)), longer)


@pytest.mark.parametrize(
    "change", [{"mu": 0.3}, {"seed": 1}, {"weight_decay": 0.0}, {"n_sampled": 3}]
)
def test_checkpoint_of_other_settings_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    stored = replace(CONFIG, checkpoint=tmp_path / "a.safetensors")
    train(stored)
    with pytest.raises(DataError, match="written with other settings or data"):
        train(replace(stored, **change))


def test_checkpoint_of_other_data_is_refused(tmp_path: Path) -> None:
    stored = replace(CONFIG, checkpoint=tmp_path / "a.safetensors")
    train(stored)
    with pytest.raises(DataError, match="written with other settings or data"):
        train(stored, Targets.from_features(X + 1e-9, CODES, 3))


def test_checkpoint_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    stored = replace(CONFIG, checkpoint=path)
    train(stored)
    with pytest.raises(DataError, match="is at step 60, beyond n_steps=20"):
        train(replace(stored, n_steps=20))
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match="is not a readable checkpoint"):
        train(stored)
    from safetensors.numpy import save_file

    save_file({"a": np.zeros(1)}, path)
    with pytest.raises(DataError, match="is no checkpoint of hgkt"):
        train(stored)


def test_diverged_run_leaves_the_last_good_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    with pytest.raises(DataError, match="lower learning_rate"):
        train(replace(CONFIG, learning_rate=1e10, checkpoint=path, checkpoint_every=1))
    from safetensors.numpy import load_file

    stored = load_file(path)
    assert len(stored["losses"]) >= 1
    assert all(np.isfinite(array).all() for array in stored.values())


def test_checkpoint_in_an_unwritable_place_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"cannot write .*a\.safetensors"):
        train(replace(CONFIG, checkpoint=tmp_path / "file" / "a.safetensors"))
