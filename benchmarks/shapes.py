"""What the shapes are worth that the page estimates for a new digit from its lit segments.

    python benchmarks/shapes.py [--out FILE]

The model is that of `hgkt demo`. One hidden digit is added at a time, with its segments and four
readings of its shapes; how many images are read right then, of it and of the seen digits?
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from _script import arguments, one_thread, write_record
from hgkt.data import load_dataset
from hgkt.estimators import HGKTClassifier
from hgkt.evaluation import ClassFoldSearch

N_SEGMENTS = 14  # attributes: each of seven segments, lit and dark; the rest are shapes


def readings(seen: NDArray[np.float64], own: NDArray[np.float64]) -> Iterator[tuple[str, NDArray]]:
    """Yield attributes of a digit: its segments, and its shapes in four ways."""
    segments, shapes = seen[:, :N_SEGMENTS], seen[:, N_SEGMENTS:]
    middle = segments.mean(axis=0)
    slopes = np.linalg.pinv(segments - middle) @ (shapes - shapes.mean(axis=0))
    estimate = shapes.mean(axis=0) + (own[:N_SEGMENTS] - middle) @ slopes
    for name, values in (
        ("estimated from its segments, as the page does",
         np.clip(estimate, shapes.min(axis=0), shapes.max(axis=0))),
        ("as the data set describes them", own[N_SEGMENTS:]),
        ("all at zero", np.zeros(shapes.shape[1])),
        ("at the mean of the seen digits", shapes.mean(axis=0)),
    ):  # fmt: skip
        yield name, np.concatenate([own[:N_SEGMENTS], values])


def main() -> None:
    """Add each hidden digit in each way and write the record."""
    args = arguments(__doc__, "shapes", root=False).parse_args()
    one_thread()
    digits = load_dataset("digits")
    X, y = digits.rows("train")
    search = ClassFoldSearch(HGKTClassifier(device="cpu"), random_state=0)
    model = search.fit(X, y, digits.attributes_of(digits.seen_classes)).best_estimator_
    seen = model.class_attributes_
    X_seen, y_seen = digits.rows("test_seen")
    X_new, y_new = digits.rows("test_unseen")
    before = 100 * np.mean(model.predict(X_seen) == y_seen)
    rows = []
    for digit, own in digits.attributes_of(digits.unseen_classes).items():
        images = X_new[y_new == digit]
        for name, attributes in readings(seen, np.asarray(own, dtype=np.float64)):
            model.add_classes({digit: attributes})
            found = 100 * np.mean(model.predict(images) == digit)
            kept = 100 * np.mean(model.predict(X_seen) == y_seen)
            model.remove_classes([digit])
            about = {"digit": digit, "shapes": name, "n_images": len(images)}
            rows.append({**about, "new": found, "seen": kept})
    write_record(args.out, {"n_seen_images": len(y_seen), "seen_before": before, "rows": rows})


if __name__ == "__main__":
    main()
