"""What each parameter of the closed form is worth on validation classes; test rows are not read.

python benchmarks/grid.py --root DATA [--data CUB --features efflite2 --attributes att]
"""

from __future__ import annotations

import argparse

import pandas as pd


def main() -> None:
    """Print the best mean validation AUSUC for every value of every parameter."""
    from hgkt.data import load_dataset
    from hgkt.estimators import HGKTClassifier
    from hgkt.evaluation import ClassFoldSearch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", required=True)
    parser.add_argument("--data", default="CUB")
    parser.add_argument("--features", default="efflite2")
    parser.add_argument("--attributes", default="att")
    args = parser.parse_args()
    data = load_dataset(
        args.data, root=args.root, features=args.features, attributes=args.attributes
    )
    kernels = [
        {"kernel": ["rbf", "knn"], "kernel_scale": [0.5, 1.0], "n_neighbors": [10]},
        {"kernel": ["quadratic", "linear"]},
    ]
    shared = {
        "feature_map": ["none", "l2", "sqrt+l2"],
        "attribute_map": ["l2", "sqrt+l2"],
        "ridge": [0.01, 0.03, 0.1],
        "shrinkage": [0.3, 0.5, 0.7, "oas", 1.0],
        "norm_power": [1.0, 1.2],
        "weighting": ["count", "uniform"],
    }
    stage = [{**kernel, **shared} for kernel in kernels]
    stage.append({"metric": ["euclidean"], **kernels[0], **shared, "norm_power": [1.0]})
    X, y = data.rows("train")
    search = ClassFoldSearch(HGKTClassifier(), [stage], metric="ausuc")
    search.fit(X, y, data.attributes_of(data.seen_classes), folds=data.class_folds() or None)
    frame = search.results_frame().fillna({"metric": "cosine"})
    head = f"{data.name}: {len(frame)} settings, {len(search.folds_)} folds"
    print(f"{head}, {search.select_time_:.0f} s")
    rows = [
        {"parameter": name, "value": value, "AUSUC": group["mean"].max()}
        for name in ("metric", "kernel", "kernel_scale", *shared)
        for value, group in frame.groupby(name, sort=False)
    ]
    print(pd.DataFrame(rows).round(1).to_string(index=False))


if __name__ == "__main__":
    main()
