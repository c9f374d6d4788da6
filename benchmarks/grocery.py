"""Photographs from a shop: what classes known by description cost, groups, back-off, unknown.

    python benchmarks/grocery.py --root DATA [--cache DIR] [--out FILE]

DATA/GROCERY holds the grocery store data set: train and val to learn from, test to measure. Every
fifth class in order of name, from the fifth, is known by its name (or the shop's text) alone: 16 of
81. Features of efficientnet-lite2, everything else by default. The figures are percent; accuracies
are means over classes, each counting alike. In the figures of unknown photos the 16 are not in the
model, and their photos are the unknown ones.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from _script import arguments, one_thread, write_record
from hgkt import ImageClassifier, train_on_images
from hgkt.evaluation import per_class_accuracy, taxonomy_report
from hgkt.items import read_photos

BACKBONE = "efficientnet-lite2"
REJECT, COVERAGE = 0.05, 0.9


def described_only(names: pd.Series) -> list[str]:
    """Return every fifth class in order of name, from the fifth."""
    return sorted(names)[4::5]


def manifest(folder: Path, parts: tuple[str, ...], out: Path, without: list[str]) -> Path:
    """Write a table of the photographs of some parts, less those of some classes."""
    files = [path for part in parts for path in sorted((folder / part).glob("*/*.jpg"))]
    rows = [(str(path), path.parent.name) for path in files if path.parent.name not in without]
    pd.DataFrame(rows, columns=["file", "class"]).to_csv(out, index=False)
    return out


def results(root: Path, by: str, scratch: Path, cache: Path) -> dict[str, Any]:
    """Train by names or by descriptions and return every figure."""
    table = pd.read_csv(root / "classes.csv")
    described = described_only(table["name"])
    classes = table if by == "descriptions" else table.drop(columns="description")
    learn = manifest(root, ("train", "val"), scratch / "learn.csv", described)
    how: dict[str, Any] = {"backbone": BACKBONE, "cache": cache, "progress": _tell}
    model = train_on_images(learn, classes, device="cpu", **how)
    test = manifest(root, ("test",), scratch / "test.csv", [])
    photos = read_photos(test, classes, device="cpu", **how).dataset
    labels = np.array(photos.class_names)[photos.labels]
    return {
        "by": by,
        "gamma": model.classifier.gamma_,
        "chosen": model.about["chosen"],
        **known(model, photos.features, labels, np.isin(labels, described)),
        "unknown": unknown(model, photos.features, np.isin(labels, described)),
    }


def known(model: ImageClassifier, X: Any, labels: Any, is_described: Any) -> dict[str, Any]:
    """Return accuracies, back-off and sets on test photos."""
    found = model.classifier.answers(X, coverage=COVERAGE)
    tree = model.taxonomy(found.classes.tolist())
    rows = {"learned": ~is_described, "described": is_described, "all": np.ones(len(X), bool)}
    reports = {
        name: taxonomy_report(labels[part], found.probabilities[part], tree).to_dict()
        for name, part in rows.items()
    }
    assert found.members is not None
    column = {name: place for place, name in enumerate(found.classes.tolist())}
    inside = found.members[np.arange(len(X)), [column[name] for name in labels]]
    return {
        "accuracy": {
            name: 100 * per_class_accuracy(labels[part], found.labels[part])
            for name, part in rows.items()
        },
        "levels": reports,
        "confidence_learned": 100 * float(found.probabilities[~is_described].max(axis=1).mean()),
        "sets": {
            name: {
                "coverage": 100 * float(inside[part].mean()),
                "size": float(found.members[part].sum(axis=1).mean()),
            }
            for name, part in rows.items()
        },
    }


def unknown(model: ImageClassifier, X: Any, is_unknown: Any) -> dict[str, float]:
    """Return how well photos of classes that were not added are told from others."""
    model.remove_classes(model.unseen_classes_.tolist())
    novelty = model.classifier.novelty(X)
    rejected = novelty > 1 - REJECT
    return {
        "auroc": 100 * float(roc_auc_score(is_unknown, novelty)),
        "false_alarms": 100 * float(rejected[~is_unknown].mean()),
        "found": 100 * float(rejected[is_unknown].mean()),
    }


def _tell(stage: str, done: int, total: int, values: dict[str, float]) -> None:
    if done in (0, total) or done % 512 == 0:
        print(f"{stage}: {done} of {total}", file=sys.stderr, flush=True)


def main() -> None:
    """Train by names and by descriptions, and write the record."""
    parser = arguments(__doc__, "grocery")
    parser.add_argument("--cache", type=Path, help="folder that keeps extracted features")
    args = parser.parse_args()
    one_thread()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for by in ("names", "descriptions"):
            cache = args.cache or Path(folder) / "features"
            rows.append(results(Path(args.root) / "GROCERY", by, Path(folder), cache))
            print(f"{by}: {rows[-1]['accuracy']}", file=sys.stderr)
    write_record(args.out, {"rows": rows})


if __name__ == "__main__":
    main()
