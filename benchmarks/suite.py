"""The five benchmarks' exact shapes on synthetic data: selection, fit and test, beside two peers.

Sizes, splits, widths and class counts are those of the proposed splits of Xian et al. (2018) with
ResNet-101 features. scikit-learn's LinearDiscriminantAnalysis fits and predicts rows of the seen
classes alone; CN-ZSL, the nearest published method in cost, is fitted once without any selection.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from _timing import device_name, document, noisy_rows, timed
from hgkt._arrays import torch_device
from hgkt.baselines.cn_zsl import CNZSLClassifier
from hgkt.data import GZSLDataset
from hgkt.data.synthetic import class_means
from hgkt.estimators import HGKTClassifier
from hgkt.evaluation import evaluate

_SHRINKAGE = 0.5


@dataclass(frozen=True)
class Shape:
    """Rows, widths and class counts of a benchmark."""

    name: str
    n_train: int
    n_test_seen: int
    n_test_unseen: int
    n_features: int
    n_attributes: int
    n_seen: int
    n_unseen: int


FULL = (
    Shape("AWA1", 19_832, 4_958, 5_685, 2048, 85, 40, 10),
    Shape("AWA2", 23_527, 5_882, 7_913, 2048, 85, 40, 10),
    Shape("CUB", 7_057, 1_764, 2_967, 2048, 312, 150, 50),
    Shape("SUN", 10_320, 2_580, 1_440, 2048, 102, 645, 72),
    Shape("APY", 5_932, 1_483, 7_924, 2048, 64, 20, 12),
)
QUICK = (Shape("small", 240, 60, 60, 16, 8, 12, 4),)


def run(quick: bool = False, device: str = "auto") -> dict[str, Any]:
    """Run the protocol on data of every shape.

    Parameters
    ----------
    quick : bool, default=False
        One tiny shape; the figures then mean nothing.
    device : {"auto", "cpu", "cuda"}
        Where methods compute that can do so on a GPU.

    Returns
    -------
    dict
        ``shapes``: seconds of selection, fit and test, of a fit alone, and of the peers, a row per
        shape.
    """
    shapes, device = QUICK if quick else FULL, torch_device(device)
    results = {
        "device": device,
        "device_name": device_name(device),
        "shapes": [measure(shape, device, quick) for shape in shapes],
    }
    notes = [
        "Features are synthetic: a smooth map of the attributes plus noise, non-negative; the "
        "shapes are those of the benchmarks, and accuracies mean nothing.",
        "The protocol is `hgkt evaluate --select`: metrics, kernels, ridges, powers, the ensemble "
        "on three folds of seen classes, γ and confidence, the fit, and the test.",
        "Discriminant analysis fits the train rows and predicts the test rows of seen classes; "
        "CN-ZSL is fitted once with its defaults and predicts all test rows.",
    ]
    return document(
        "suite", quick, results, notes, ["scikit-learn", "torch"], [HGKTClassifier, CNZSLClassifier]
    )


def measure(shape: Shape, device: str = "cpu", quick: bool = False) -> dict[str, Any]:
    """Time the protocol, a fit alone and the peers on data of one shape."""
    data = make_shape(shape)
    return {**asdict(shape), **_protocol(data, device), **_peers(data, device, quick)}


def _protocol(data: GZSLDataset, device: str) -> dict[str, Any]:
    X, y = data.rows("train")
    record, whole = timed(lambda: evaluate(HGKTClassifier(device=device), data, select=True))
    alone, attributes = HGKTClassifier(calibration=0, device=device), data.attributes_of
    _, fit = timed(lambda: alone.fit(X, y, class_attributes=attributes(data.seen_classes)))
    return {
        "select_seconds": record.timings["select"],
        "fit_seconds": record.timings["fit"],
        "test_seconds": record.timings["test"],
        "total_seconds": whole.wall,
        "fit_alone_seconds": fit.wall,
    }


def _peers(data: GZSLDataset, device: str, quick: bool) -> dict[str, Any]:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    X, y = data.rows("train")
    few: dict[str, Any] = {"n_epochs": 1} if quick else {}
    peer = CNZSLClassifier(device=device, random_state=0, **few)

    def cn_zsl() -> None:
        peer.fit(X, y, class_attributes=data.attributes_of(data.seen_classes))
        peer.add_classes(data.attributes_of(data.unseen_classes))
        for part in ("test_seen", "test_unseen"):
            peer.predict(data.rows(part)[0])

    analysis = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=_SHRINKAGE)
    _, lda = timed(lambda: analysis.fit(X, y).predict(data.rows("test_seen")[0]))
    _, other = timed(cn_zsl)
    return {"lda_seconds": lda.wall, "cn_zsl_seconds": other.wall}


def make_shape(shape: Shape) -> GZSLDataset:
    """Make a data set of a shape: classes of equal size, split as the benchmark is."""
    rng = np.random.default_rng(0)
    attributes = rng.random((shape.n_seen + shape.n_unseen, shape.n_attributes), dtype=np.float32)
    means = class_means(attributes, shape.n_features, seed=0).astype(np.float32)
    parts = [
        np.arange(shape.n_train) % shape.n_seen,
        np.arange(shape.n_test_seen) % shape.n_seen,
        shape.n_seen + np.arange(shape.n_test_unseen) % shape.n_unseen,
    ]
    labels = np.concatenate(parts)
    train, test_seen, test_unseen = np.split(
        np.arange(len(labels)), np.cumsum([shape.n_train, shape.n_test_seen])
    )
    return GZSLDataset(
        name=shape.name,
        features=noisy_rows(rng, means[labels]),
        labels=labels,
        class_names=tuple(f"class {code:04d}" for code in range(len(attributes))),
        class_attributes=attributes,
        train=train,
        test_seen=test_seen,
        test_unseen=test_unseen,
    )
