"""Train the paper's network as the paper does, to the end, beside the exact training.

    python benchmarks/paper_training.py --root DATA [--device auto] [--minutes 30] [--steps 60000]
                                        [--only lbfgs,adam,sampled] [--out FILE]

On all seen classes and at one μ: the exact loss by L-BFGS with the output layer solved ("lbfgs",
the preset `exact`), the exact loss by the paper's Adam at 1e-4 ("adam"), and the preset `paper`
("sampled"): mini-batches with S = 50 drawn neighbours and representatives by Sinkhorn with ε = 1e-5
on the scaled cost. A row has the loss over all instances with and without weight decay,
both in the unit in which the network is trained, the test's ZSL, H (γ = 0) and AUSUC, steps and
seconds. Nothing is chosen here. A run that meets ``--minutes`` or ``--steps`` says so in its row.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from _script import arguments, load, tested, write_record
from hgkt._arrays import map_rows
from hgkt.data import GZSLDataset
from hgkt.estimators import HGKTNetworkClassifier
from hgkt.network.loss import SquaredObjective, Targets

DATA, MU = "CUB", 0.1
TRAININGS: dict[str, tuple[str, dict[str, Any]]] = {
    "lbfgs": ("exact", {"optimizer": "lbfgs"}),
    "adam": ("exact", {"optimizer": "adam"}),
    "sampled": ("paper", {}),
}


def trained(
    model: HGKTNetworkClassifier, data: GZSLDataset, checkpoint: Any, minutes: float, steps: int
) -> tuple[HGKTNetworkClassifier, bool, float]:
    """Fit within a time and a number of steps; return the model, whether it ended, and seconds."""
    X, y = data.rows("train")
    table = data.attributes_of(data.seen_classes)
    start, reached = time.perf_counter(), 0

    def watch(stage: str, done: int, total: int, values: dict[str, float]) -> None:
        nonlocal reached
        if stage == "train":
            reached = done
            if time.perf_counter() - start > 60 * minutes or done >= steps:
                raise KeyboardInterrupt

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            model.write_to(checkpoint).on_progress(watch).fit(X, y, class_attributes=table)
        except KeyboardInterrupt:  # a checkpoint was written; stop there
            seconds = time.perf_counter() - start
            model.on_progress(None).set_params(n_steps=reached).fit(X, y, class_attributes=table)
            return model, False, seconds
    return model, True, time.perf_counter() - start


def row(model: HGKTNetworkClassifier, data: GZSLDataset) -> dict[str, float]:
    """Return losses and the test of a fitted model."""
    X, y = data.rows("train")
    codes = np.searchsorted(model.seen_classes_, y)
    targets = Targets.from_features(map_rows(X, model.feature_map), codes, len(model.seen_classes_))
    scale = 1.0 if model.feature_norm is None else model.feature_norm / targets.norm
    objective = SquaredObjective.build(targets)
    weights = model._transfer.weights.scaled(scale).arrays().values()
    loss = scale**2 * objective.numpy_loss(model.class_embeddings_)
    decay = 0.5 * model.weight_decay * sum(float(np.square(w, dtype=float).sum()) for w in weights)
    model.add_classes(data.attributes_of(data.unseen_classes))
    found = tested(model, data.rows("test_seen"), data.rows("test_unseen"), 0.0)
    return {
        "loss": loss,
        "loss_with_decay": loss + decay,
        "floor": scale**2 * objective.constant,
        "ZSL": found.zsl,
        "H": found.H,
        "AUSUC": found.ausuc,
    }


def main() -> None:
    """Run every training and write the record."""
    parser = arguments(__doc__, "paper_training")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--minutes", type=float, default=30.0, help="cap on each training")
    parser.add_argument("--steps", type=int, default=60_000, help="cap on each training")
    parser.add_argument("--only", default=",".join(TRAININGS))
    args = parser.parse_args()
    data = load(DATA, args.root)
    rows = []
    for name in args.only.split(","):
        preset, changes = TRAININGS[name]
        model = HGKTNetworkClassifier.from_preset(
            preset, mu=MU, device=args.device, random_state=0, **changes
        )
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = Path(folder) / "run.safetensors"
            model, ended, seconds = trained(model, data, checkpoint, args.minutes, args.steps)
        about = {"training": name, "device": args.device, "preset": preset,
                 **changes, "steps": len(model.loss_curve_)}  # fmt: skip
        rows.append({**about, "ended": ended, "seconds": seconds, **row(model, data)})
        print(rows[-1], flush=True)
    settings = {"data": DATA, "mu": MU, "minutes": args.minutes, "steps": args.steps}
    write_record(args.out, {"settings": settings, "rows": rows}, "hgkt-network")


if __name__ == "__main__":
    main()
