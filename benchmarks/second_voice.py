"""Does a learned embedder, averaged with the closed form, earn its cost? Validation classes only.

    python benchmarks/second_voice.py --root DATA [--data CUB,AWA1] [--seeds 5] [--out FILE]

The second voice is a class-normalised network from attributes to the visual space, trained with a
cosine softmax in the metric of the closed form. Both give every class a direction; averages of the
two are compared with the closed form by AUSUC on the published folds of validation classes. Test
images are never read.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from _script import FEATURES, arguments, one_thread, write_record
from hgkt._geometry import map_rows, unit_rows
from hgkt.data import GZSLDataset, load_dataset
from hgkt.estimators import HGKTClassifier
from hgkt.evaluation import ClassFoldSearch
from hgkt.evaluation.curve import seen_unseen_curve
from hgkt.evaluation.folds import split_fold

N_EPOCHS = {"CUB": 20, "AWA1": 10}  # 300 and 500 steps
WEIGHTS = (0.25, 0.5, 0.75)
_EPSILON = 1e-5


@dataclass(frozen=True)
class Settings:
    """How the embedder is trained.

    It differs from `hgkt.baselines.cn_zsl` in a linear output, the mapped attributes, a cosine
    schedule of the rate, scale and epochs. In single runs on two folds of CUB, scales of 15, 25 and
    40 gave a weaker embedder, 6 a similar one.
    """

    n_hidden: int = 1024
    n_epochs: int = 20
    batch_size: int = 256
    scale: float = 10.0
    learning_rate: float = 5e-4
    weight_decay: float = 1e-4


@dataclass(frozen=True)
class Fold:
    """One fold: the closed form fitted on it, and what the embedder and the test of it need."""

    model: HGKTClassifier
    x: NDArray[np.float32]
    codes: NDArray[np.intp]
    x_eval: NDArray[np.float32]
    y_seen: NDArray[Any]
    y_unseen: NDArray[Any]
    closed_form_seconds: float

    @property
    def n_seen(self) -> int:
        """Number of classes with training images."""
        return len(self.model.seen_classes_)

    def ausuc(self, directions: NDArray[Any], lengths: NDArray[Any] | None = None) -> float:
        """AUSUC in percent of unit class embeddings (C, D), their scores times `lengths`."""
        scores = self.x_eval @ directions.T
        if lengths is not None:
            scores = scores * lengths
        n = len(self.y_seen)
        classes = self.model.classes_
        curve = seen_unseen_curve(
            scores[:n], self.y_seen, scores[n:], self.y_unseen, classes, self.n_seen
        )
        return 100 * curve.area


class Embedder(torch.nn.Module):
    """Attributes (C, d) to embeddings (C, D): three layers, standardised over the seen classes."""

    def __init__(self, n_attributes: int, n_features: int, n_hidden: int) -> None:
        super().__init__()
        self.first = torch.nn.Linear(n_attributes, n_hidden)
        self.second = torch.nn.Linear(n_hidden, n_hidden)
        self.last = torch.nn.Linear(n_hidden, n_features)
        # Small outputs at first, as in CN-ZSL; the cosine sees directions only.
        torch.nn.init.normal_(self.last.weight, std=(n_hidden * n_features) ** -0.5)

    def forward(self, rows: torch.Tensor, n_seen: int) -> torch.Tensor:
        """Embed rows of which the first `n_seen` are the seen classes."""
        hidden = _standardize(self.second(torch.relu(self.first(rows))), n_seen)
        return self.last(_standardize(torch.relu(hidden), n_seen))


def _standardize(values: torch.Tensor, n_seen: int) -> torch.Tensor:
    # Every step sees all seen classes, so their statistics are exact and need no running average.
    seen = values[:n_seen]
    # By the variance, not its root: what the released code of CN-ZSL does.
    return (values - seen.mean(dim=0)) / (seen.var(dim=0) + _EPSILON)


def train_embedder(fold: Fold, settings: Settings, seed: int) -> tuple[NDArray[np.float32], float]:
    """Return unit embeddings (C, D) of all classes of the fold, and the seconds it took."""
    start = time.process_time()
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    # The closed form's map of attributes, with rows of length √d as in CN-ZSL. The new classes are
    # embedded at the end and take no part in training.
    attributes = map_rows(fold.model.class_attributes_, fold.model.attribute_map)
    rows = torch.tensor(attributes * attributes.shape[1] ** 0.5, dtype=torch.float32)
    seen, x, codes = rows[: fold.n_seen], torch.from_numpy(fold.x), torch.from_numpy(fold.codes)
    network = Embedder(rows.shape[1], x.shape[1], settings.n_hidden)
    optimizer = torch.optim.Adam(
        network.parameters(), settings.learning_rate, weight_decay=settings.weight_decay, fused=True
    )
    n_steps = settings.n_epochs * -(-len(x) // settings.batch_size)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, n_steps)
    for _ in range(settings.n_epochs):
        for batch in torch.from_numpy(rng.permutation(len(x))).split(settings.batch_size):
            z = torch.nn.functional.normalize(network(seen, fold.n_seen), dim=1)
            loss = torch.nn.functional.cross_entropy(settings.scale * x[batch] @ z.T, codes[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    with torch.no_grad():
        embeddings = network(rows, fold.n_seen).numpy()
    return unit_rows(embeddings), time.process_time() - start


def iter_folds(dataset: GZSLDataset, params: dict[str, Any], seed: int = 0) -> Iterator[Fold]:
    """Yield the published folds with the closed form of `params` fitted on each."""
    X, y = dataset.rows("train")
    table = dataset.attributes_of(dataset.seen_classes)
    for number, (train, val) in enumerate(dataset.class_folds()):
        rows = split_fold(y, train, val, random_state=[seed, number])
        start = time.process_time()
        model = HGKTClassifier(device="cpu", **params)
        model.fit(X[rows.fit], y[rows.fit], class_attributes={name: table[name] for name in train})
        model.add_classes({name: table[name] for name in val})
        seconds = time.process_time() - start
        yield Fold(
            model,
            unit_rows(model._map_features(X[rows.fit])),
            np.searchsorted(model.seen_classes_, y[rows.fit]),
            unit_rows(model._map_features(X[np.concatenate([rows.val_seen, rows.val_unseen])])),
            y[rows.val_seen],
            y[rows.val_unseen],
            seconds,
        )


def compare(fold: Fold, settings: Settings, seeds: Sequence[int]) -> dict[str, Any]:
    """Return the AUSUC of each voice and of their averages on one fold, by seed."""
    lengths = np.linalg.norm(fold.model.class_embeddings_, axis=1)
    first = unit_rows(fold.model.class_embeddings_)
    # The closed form's own damping of far classes stays in every average, so that weight 0 is it.
    damping = lengths ** (1.0 - fold.model.norm_power)

    def mixed(second: NDArray[Any], weight: float) -> float:
        return fold.ausuc(unit_rows((1.0 - weight) * first + weight * second), damping)

    def figures(second: NDArray[Any]) -> dict[str, float]:
        averages = {f"average {weight:g}": mixed(second, weight) for weight in WEIGHTS}
        return {"embedder": fold.ausuc(second), **averages}

    voices, seconds = zip(*(train_embedder(fold, settings, seed) for seed in seeds), strict=True)
    return {
        "closed form": fold.ausuc(first, damping),
        "seeds": [figures(voice) for voice in voices],
        "all seeds": figures(unit_rows(np.mean(voices, axis=0))),
        "seconds": {"closed form": fold.closed_form_seconds, "embedder": list(seconds)},
    }


def run(name: str, root: str, settings: Settings, n_seeds: int) -> dict[str, Any]:
    """Choose the closed form on the folds of one data set, then compare on them."""
    dataset = load_dataset(name, root=root, features=FEATURES[name])
    X, y = dataset.rows("train")
    search = ClassFoldSearch(HGKTClassifier(device="cpu"))
    search.fit(X, y, dataset.attributes_of(dataset.seen_classes), folds=dataset.class_folds())
    folds = []
    for fold in iter_folds(dataset, search.best_params_):
        folds.append(compare(fold, settings, range(n_seeds)))
        print(name, folds[-1], file=sys.stderr)
    return {
        "data": name,
        "features": FEATURES[name],
        "fingerprint": dataset.fingerprint(),
        "closed_form_params": search.best_params_,
        "settings": settings,
        "folds": folds,
    }


def summary(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Return AUSUC, gain over the closed form and CPU seconds, a row per variant.

    The deviation of a single embedder is over seeds and folds together, that of the rest over
    folds. A gain is taken within its fold.
    """
    folds = result["folds"]
    own = float(np.mean([fold["seconds"]["closed form"] for fold in folds]))
    extra = float(np.mean([fold["seconds"]["embedder"] for fold in folds]))
    n_seeds = len(folds[0]["seeds"])
    rows = [_row("closed form", [(fold["closed form"],) * 2 for fold in folds], own, own)]
    for name in folds[0]["all seeds"]:
        each = [(seed[name], fold["closed form"]) for fold in folds for seed in fold["seeds"]]
        mean = [(fold["all seeds"][name], fold["closed form"]) for fold in folds]
        rows.append(_row(f"{name}, one seed", each, own + extra, own))
        rows.append(_row(f"{name}, mean of {n_seeds} seeds", mean, own + n_seeds * extra, own))
    return rows


def _row(
    name: str, pairs: Sequence[tuple[float, float]], seconds: float, own: float
) -> dict[str, Any]:
    values, base = np.array(pairs).T
    gains = values - base
    return {
        "variant": name,
        "ausuc": float(np.mean(values)),
        "gain": float(np.mean(gains)),
        "gain_std": float(np.std(gains, ddof=1)) if len(gains) > 1 else 0.0,
        "gain_min": float(np.min(gains)),
        "n_better": int(np.sum(gains > 0)),
        "n": len(gains),
        "seconds": seconds,
        "cost_ratio": seconds / own,
    }


def main() -> None:
    """Run the data sets and write the record."""
    parser = arguments(__doc__, "second_voice")
    parser.add_argument("--data", default="CUB,AWA1")
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    one_thread()
    results = []
    for name in args.data.split(","):
        result = run(name, args.root, Settings(n_epochs=N_EPOCHS[name]), args.seeds)
        results.append({**result, "summary": summary(result)})
        write_record(args.out, {"results": results})


if __name__ == "__main__":
    main()
