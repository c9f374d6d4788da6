"""What the network refuses, it refuses with one whole sentence; what is left out has a default."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hgkt.exceptions import DataError
from hgkt.graph import ClassNeighbors, Quotient
from hgkt.network.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from hgkt.network.layers import HGKTEmbedder, SageLayer
from hgkt.network.loss import SquaredObjective, Targets
from hgkt.network.train import TrainingConfig, train_embedder
from hgkt.network.weights import EmbedderWeights

QUOTIENT = Quotient([2, 1], ClassNeighbors.from_rows([[1], [0]]))
P, X, CODES = np.eye(2), np.array([[1.0], [3.0], [5.0]]), np.array([0, 0, 1])
TARGETS = Targets.from_features(X, CODES, 2)
CONFIG = TrainingConfig(n_steps=3, n_hidden=2, device="cpu", optimizer="adam")
SAMPLED = replace(CONFIG, n_sampled=50)
WEIGHTS = EmbedderWeights(np.ones((1, 4)), np.zeros(1), np.ones((1, 2)), np.zeros(1))


def config(**changes: Any) -> Callable[[], Any]:
    return lambda: TrainingConfig(**changes)


REFUSALS: list[tuple[Callable[[], Any], str]] = [
    # settings
    (
        config(output_activation="tanh"),
        "output_activation must be one of 'leaky_relu', 'relu', 'linear'; got 'tanh'",
    ),
    (
        config(loss_nodes="all"),
        "loss_nodes must be one of 'class', 'instance', 'representative'; got 'all'",
    ),
    (config(weighting="image"), "weighting must be one of 'count', 'uniform'; got 'image'"),
    (config(device="tpu"), "device must be one of 'auto', 'cpu', 'cuda'; got 'tpu'"),
    (config(dtype="float16"), "dtype must be one of 'float32', 'float64'; got 'float16'"),
    *(
        (config(**{name: value}), f"{name} must be an integer in [1, inf]; got {value}")
        for name in ("n_hidden", "batch_size", "n_sampled", "checkpoint_every")
        for value in (0, 1.5)
    ),
    *(
        (config(**{name: value}), f"{name} must be an integer in [0, inf]; got {value}")
        for name in ("n_steps", "seed")
        for value in (-1, 1.5)
    ),
    (config(learning_rate=0), "learning_rate must be a number in (0, inf]; got 0"),
    (config(mu=-0.1), "mu must be a number in [0, inf]; got -0.1"),
    (config(weight_decay=-0.1), "weight_decay must be a number in [0, inf]; got -0.1"),
    (
        config(n_steps=5, snapshot_steps=(1, 6)),
        "snapshot_steps must be an integer in [0, 5]; got 6",
    ),
    (
        config(n_steps=1000, snapshot_steps=(-1,)),
        "snapshot_steps must be an integer in [0, 1000]; got -1",
    ),
    (
        config(n_steps=1000, snapshot_steps=(1.5,)),
        "snapshot_steps must be an integer in [0, 1000]; got 1.5",
    ),
    # the run
    (
        lambda: train_embedder(QUOTIENT, P[0], TARGETS, CONFIG),
        "attributes must be a matrix, a row a class; got (2,)",
    ),
    (
        lambda: train_embedder(QUOTIENT, np.eye(3), TARGETS, CONFIG),
        "the graph has 2 classes, attributes 3 rows and targets 2; the same number is expected",
    ),
    (
        lambda: train_embedder(QUOTIENT, P, Targets([1], [[1.0]]), CONFIG),
        "the graph has 2 classes, attributes 2 rows and targets 1; the same number is expected",
    ),
    (
        lambda: train_embedder(QUOTIENT, P * np.nan, TARGETS, CONFIG),
        "attributes contain NaN in row 0; only finite numbers are accepted",
    ),
    (
        lambda: train_embedder(QUOTIENT, P, Targets([2, 1], [[1.0], [np.inf]]), CONFIG),
        "class means contain infinity (inf) in row 1; only finite numbers are accepted",
    ),
    (
        lambda: train_embedder(QUOTIENT, P, TARGETS, SAMPLED),
        "n_sampled needs instances=(features, codes)",
    ),
    (
        lambda: train_embedder(QUOTIENT, P, TARGETS, SAMPLED, instances=(X, CODES[1:])),
        "there are 3 rows of features, 2 codes and counts of 3 instances; "
        "the same number is expected",
    ),
    (
        lambda: train_embedder(QUOTIENT, P, TARGETS, SAMPLED, instances=(X[1:], CODES[1:])),
        "there are 2 rows of features, 2 codes and counts of 3 instances; "
        "the same number is expected",
    ),
    (
        lambda: train_embedder(
            QUOTIENT, P, TARGETS, replace(SAMPLED, loss_nodes="instance"), instances=(X, CODES)
        ),
        "loss_nodes='instance' with n_sampled needs representatives",
    ),
    (
        lambda: train_embedder(
            QUOTIENT,
            P,
            TARGETS,
            replace(SAMPLED, loss_nodes="representative"),
            instances=(X, CODES),
        ),
        "loss_nodes='representative' needs the features of the representatives in targets",
    ),
    # the objective
    (
        lambda: SquaredObjective.build(TARGETS, "instance"),
        "loss_nodes='instance' needs the features of the representatives in targets",
    ),
    (
        lambda: SquaredObjective.build(TARGETS, "all"),
        "loss_nodes must be one of 'class', 'instance', 'representative'; got 'all'",
    ),
    (
        lambda: SquaredObjective.build(TARGETS, weighting="image"),
        "weighting must be one of 'count', 'uniform'; got 'image'",
    ),
    # the layers
    (
        lambda: SageLayer(2, 2, activation="tanh"),
        "activation must be one of 'leaky_relu', 'relu', 'linear'; got 'tanh'",
    ),
    (
        lambda: EmbedderWeights(P, P, P, P, output_activation="tanh"),
        "output_activation must be one of 'leaky_relu', 'relu', 'linear'; got 'tanh'",
    ),
    (
        lambda: WEIGHTS.embed_seen(np.ones((2, 3)), np.eye(4)),
        "attributes must have 2 columns, one row a class; got shape (2, 3)",
    ),
    (
        lambda: WEIGHTS.embed_seen(np.ones(2), np.eye(4)),
        "attributes must have 2 columns, one row a class; got shape (2,)",
    ),
    (
        lambda: WEIGHTS.embed_new(P, [[0]], P, [[1.0]]),
        "there are 2 new classes and neighbours of 1; the same number is expected",
    ),
    (
        lambda: WEIGHTS.embed_new(P, [[0], [2]], P, [[1.0]]),
        "class 1 has neighbour 2; classes 0 to 1 are expected",
    ),
]


@pytest.mark.parametrize(("call", "sentence"), REFUSALS)
def test_refusals_are_whole_sentences(call: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(DataError) as refused:
        call()
    assert str(refused.value) == sentence


def test_settings_are_taken_at_the_very_edge() -> None:
    TrainingConfig(n_hidden=1, batch_size=1, n_sampled=1, checkpoint_every=1, n_steps=0, seed=0)
    TrainingConfig(mu=0, weight_decay=0, n_steps=5, snapshot_steps=(0, 5))
    assert train_embedder(QUOTIENT, P, TARGETS, replace(CONFIG, n_steps=0)).losses.shape == (0,)


def test_checkpoints_are_refused_with_whole_sentences(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    assert read_checkpoint(path, "one") is None
    write_checkpoint(path, Checkpoint(7, "one", {"w": np.arange(6.0).reshape(2, 3).T}))
    again = read_checkpoint(str(path), "one")
    assert again is not None
    assert (again.step, again.identity) == (7, "one")
    np.testing.assert_array_equal(again.arrays["w"], np.arange(6.0).reshape(2, 3).T)
    with pytest.raises(DataError) as refused:
        read_checkpoint(path, "another")
    assert str(refused.value) == (
        f"the checkpoint {path} was written with other settings or data; "
        "delete it or choose another path"
    )
    stored = replace(CONFIG, checkpoint=tmp_path / "b.safetensors")
    train_embedder(QUOTIENT, P, TARGETS, stored)
    with pytest.raises(DataError) as refused:
        train_embedder(QUOTIENT, P, TARGETS, replace(stored, n_steps=2))
    assert str(refused.value) == (
        f"the checkpoint {stored.checkpoint} is at step 3, beyond n_steps=2; "
        "raise n_steps or delete it"
    )


def test_a_run_that_went_astray_says_what_to_lower() -> None:
    with pytest.raises(DataError) as refused:
        train_embedder(QUOTIENT, P, TARGETS, replace(CONFIG, learning_rate=1e30))
    text = str(refused.value)
    assert text.startswith(("the loss is inf at step ", "the loss is nan at step "))
    assert text.endswith(
        "; lower learning_rate (now 1e+30) or the scale of attributes and features"
    )
    with pytest.raises(DataError) as refused:
        train_embedder(QUOTIENT, P, TARGETS, replace(CONFIG, n_steps=1, learning_rate=1e300))
    assert str(refused.value) == (
        "the weights are not finite after step 1; lower learning_rate (now 1e+300) or the scale of "
        "attributes and features"
    )


def test_defaults_of_the_settings_are_the_papers() -> None:
    assert asdict(TrainingConfig()) == {
        "n_steps": None,
        "optimizer": "auto",
        "n_hidden": 1600,
        "mu": 0.5,
        "output_activation": "leaky_relu",
        "loss_nodes": "class",
        "weighting": "count",
        "learning_rate": 1e-4,
        "weight_decay": 1e-3,
        "batch_size": 64,
        "n_sampled": None,
        "seed": 0,
        "device": "auto",
        "dtype": "float32",
        "feature_norm": None,
        "checkpoint": None,
        "checkpoint_every": 500,
        "snapshot_steps": (),
    }
    embedder = HGKTEmbedder(3, 5)
    assert embedder.layer1.weight.shape == (1600, 6)
    assert (embedder.mu, embedder.layer2.mu, embedder.dtype) == (0.5, 0.5, torch.float32)
    layer = SageLayer(2, 3)
    assert (layer.mu, layer.activation, layer.weight.dtype) == (0.5, "leaky_relu", torch.float32)
    assert (layer.bias == 0).all()
    weights = EmbedderWeights.from_arrays(WEIGHTS.arrays(), 0.5)
    assert weights.output_activation == "leaky_relu"
    objective = SquaredObjective.build(TARGETS)
    expected = SquaredObjective.build(TARGETS, "class", "count")
    np.testing.assert_array_equal(objective.weights, expected.weights)
    assert objective.constant == expected.constant


def test_identity_of_a_run_leaves_out_where_and_how_long_it_goes() -> None:
    plain = TrainingConfig().identity()
    elsewhere = TrainingConfig(
        n_steps=5, device="cpu", checkpoint="a", checkpoint_every=3, snapshot_steps=(1,),
        batch_size=3,
    )  # fmt: skip
    assert elsewhere.identity() == plain
    assert set(plain) == {
        "n_hidden", "mu", "output_activation", "loss_nodes", "n_sampled", "weighting",
        "weight_decay", "seed", "dtype", "optimizer", "feature_norm",
    }  # fmt: skip
    sampled = TrainingConfig(batch_size=3, n_sampled=4).identity()
    assert (sampled["batch_size"], sampled["n_sampled"]) == (3, 4)
    assert TrainingConfig().steps_per_epoch(1000) == 1
    assert TrainingConfig(n_sampled=50, batch_size=10).steps_per_epoch(20) == 2
    assert TrainingConfig(n_sampled=50, batch_size=10).steps_per_epoch(21) == 3
