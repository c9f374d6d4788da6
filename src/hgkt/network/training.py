"""Algorithm 2: train the embedder on the quotient of the graph, or on drawn neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from hgkt._devices import torch_device
from hgkt._typing import Progress
from hgkt._validation import check_finite
from hgkt.exceptions import DataError
from hgkt.graph.quotient import Quotient
from hgkt.network.adam import AdamRun
from hgkt.network.batches import QuotientLoss, SampledLoss
from hgkt.network.checkpoint import run_identity
from hgkt.network.config import TrainingConfig
from hgkt.network.embedder import HGKTEmbedder
from hgkt.network.loop import OnSnapshot, TrainingResult, TrainingRun
from hgkt.network.objectives import SquaredObjective, Targets
from hgkt.network.projection import ProjectedRun

__all__ = ["TrainingConfig", "TrainingResult", "train_embedder"]


def train_embedder(
    quotient: Quotient,
    attributes: ArrayLike,
    targets: Targets,
    config: TrainingConfig | None = None,
    *,
    instances: tuple[NDArray[Any], ArrayLike] | None = None,
    representatives: ArrayLike | None = None,
    progress: Progress | None = None,
    on_snapshot: OnSnapshot | None = None,
) -> TrainingResult:
    """Train the embedder on the graph of seen classes.

    Parameters
    ----------
    quotient : Quotient
        The graph, collapsed.
    attributes : array-like of shape (n_classes, n_attributes)
        Class attributes.
    targets : Targets
        Counts and means of the features, and what else the loss needs.
    config : TrainingConfig, optional
        Settings.
    instances : (features, codes), optional
        Features (N, D) and class codes (N,); ``sampled`` mode reads them batch by batch.
    representatives : array-like of shape (n_classes,), optional
        Rows of the representatives, for ``sampled`` mode with ``loss_nodes="instance"``.
    progress : callable, optional
        Called as ``progress("train", done, total, {"loss": ...})`` every few steps.
    on_snapshot : callable, optional
        Called as ``on_snapshot(done, weights)`` after each of ``config.snapshot_steps``; a
        resumed run calls it for the steps it does itself.

    Returns
    -------
    TrainingResult

    Examples
    --------
    >>> from hgkt.graph import ClassNeighbors
    >>> quotient = Quotient([2, 2], ClassNeighbors.from_rows([[1], [0]]))
    >>> targets = Targets([2, 2], [[1.0, 0.0], [0.0, 1.0]])
    >>> config = TrainingConfig(n_steps=200, n_hidden=8, learning_rate=0.01, device="cpu")
    >>> result = train_embedder(quotient, [[1.0, 0.0], [0.0, 1.0]], targets, config)
    >>> bool(result.losses[-1] < 0.1 * result.losses[0])
    True
    """
    config = TrainingConfig() if config is None else config
    rows = np.asarray(attributes, dtype=np.float64)
    _check_inputs(quotient, rows, targets, config, instances)
    device, dtype = torch.device(torch_device(config.device)), getattr(torch, config.dtype)
    embedder = HGKTEmbedder(
        rows.shape[1],
        targets.n_features,
        config.n_hidden,
        config.mu,
        config.activation,
        config.output_activation,
        dtype,
        # Drawn on the CPU from a generator of its own: every device starts from the same weights.
        torch.Generator().manual_seed(config.seed),
    ).to(device)
    scale = 1.0
    if config.feature_norm is not None and targets.norm > 0:
        scale = config.feature_norm / targets.norm
        targets = targets.scaled(scale)
    run: TrainingRun
    if config.mode == "quotient":
        objective = SquaredObjective.build(
            targets, config.loss_nodes, config.reduction, config.class_weight
        )
        exact = QuotientLoss(quotient, rows, objective, device, dtype)
        kind = ProjectedRun if config.solver == "lbfgs" else AdamRun
        run = kind(config, embedder, exact, scale, progress, on_snapshot)
    else:
        assert instances is not None
        loss = SampledLoss(
            quotient, rows, targets, instances, representatives, config, device, dtype, scale
        )
        run = AdamRun(config, embedder, loss, scale, progress, on_snapshot)
    if config.checkpoint is not None:
        run.resume(_identity(quotient, rows, targets, config, instances, representatives))
    return run.train()


def _check_inputs(
    quotient: Quotient,
    attributes: NDArray[np.float64],
    targets: Targets,
    config: TrainingConfig,
    instances: tuple[NDArray[Any], ArrayLike] | None,
) -> None:
    if attributes.ndim != 2:
        raise DataError(f"attributes must be a matrix, a row a class; got {attributes.shape}")
    sizes = (quotient.n_classes, len(attributes), targets.n_classes)
    if len(set(sizes)) > 1:
        raise DataError(
            f"the graph has {sizes[0]} classes, attributes {sizes[1]} rows and targets {sizes[2]}; "
            "the same number is expected"
        )
    check_finite(attributes, "attributes")
    check_finite(targets.means, "class means")
    if config.mode == "quotient":
        return
    if instances is None:
        raise DataError("mode='sampled' needs instances=(features, codes)")
    if len(instances[0]) != np.size(instances[1]) or len(instances[0]) != targets.counts.sum():
        raise DataError(
            f"there are {len(instances[0])} rows of features, {np.size(instances[1])} codes and "
            f"counts of {targets.counts.sum():g} instances; the same number is expected"
        )


def _identity(
    quotient: Quotient,
    attributes: NDArray[np.float64],
    targets: Targets,
    config: TrainingConfig,
    instances: tuple[NDArray[Any], ArrayLike] | None,
    representatives: ArrayLike | None,
) -> str:
    mixing = quotient.mixing()
    arrays: list[NDArray[Any] | None] = [attributes, mixing.data, mixing.indices, mixing.indptr]
    arrays += [targets.counts, targets.means, targets.scatter, targets.representatives]
    if config.mode == "sampled" and instances is not None:
        arrays += [instances[0], np.asarray(instances[1])]
        arrays.append(None if representatives is None else np.asarray(representatives))
    return run_identity(config.identity(), arrays)
