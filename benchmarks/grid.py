"""What each parameter of the closed form is worth on validation classes; test rows are not read.

python benchmarks/grid.py --root DATA [--out FILE]
"""

from __future__ import annotations

from _script import FEATURES, arguments, one_thread, write_record
from hgkt.data import load_dataset
from hgkt.estimators import HGKTClassifier
from hgkt.evaluation import ClassFoldSearch

DATA = "CUB"


def main() -> None:
    """Record the best mean validation AUSUC for every value of every parameter."""
    args = arguments(__doc__, "grid").parse_args()
    one_thread()
    data = load_dataset(DATA, root=args.root, features=FEATURES[DATA])
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
    }
    stage = [{**kernel, **shared} for kernel in kernels]
    stage.append({"metric": ["euclidean"], **kernels[0], **shared, "norm_power": [1.0]})
    X, y = data.rows("train")
    search = ClassFoldSearch(HGKTClassifier(), [stage], metric="ausuc")
    search.fit(X, y, data.attributes_of(data.seen_classes), folds=data.class_folds() or None)
    frame = search.results_frame().fillna({"metric": "cosine"})
    rows = [
        {"parameter": name, "value": value, "AUSUC": group["mean"].max()}
        for name in ("metric", "kernel", "kernel_scale", *shared)
        for value, group in frame.groupby(name, sort=False)
    ]
    about = {"data": DATA, "n_settings": len(frame), "n_folds": len(search.folds_)}
    write_record(args.out, {**about, "seconds": search.select_time_, "rows": rows})


if __name__ == "__main__":
    main()
