"""
From a description to images
============================

A class begins as a description. When its first images arrive, `partial_fit` takes them in: the
description stays as a prior, and every image moves the class towards what was observed. How many
images is a description worth?
"""

import matplotlib.pyplot as plt
import numpy as np

import hgkt
from hgkt.evaluation import per_class_accuracy

data = hgkt.load_dataset("digits", unseen=("two", "six"))
X, y = data.rows("train")
X_new, y_new = data.rows("test_unseen")
counts = [0, 1, 2, 3, 5, 10, 20]

# %%
# Ten draws of the images. In each, 20 images per class are set aside to learn from, and the others
# test. *Images only* is the nearest class mean of the same images, without the description.


def nearest_mean(shown, rest):
    means = [X_new[shown][y_new[shown] == name].mean(axis=0) for name in ("two", "six")]
    distances = [np.linalg.norm(X_new[rest] - mean, axis=1) for mean in means]
    return np.array(["two", "six"])[np.argmin(distances, axis=0)]


def accuracies(seed):
    order = np.random.default_rng(seed).permutation(len(y_new))
    first = {name: order[y_new[order] == name][:20] for name in ("two", "six")}
    rest = np.setdiff1d(order, np.concatenate(list(first.values())))
    model = hgkt.HGKTClassifier(calibration=0)
    model.fit(X, y, class_attributes=data.attributes_of(data.seen_classes))
    model.add_classes(data.attributes_of(data.unseen_classes))
    described, images = [], []
    for start, stop in zip([0, *counts], counts, strict=False):
        batch = np.concatenate([rows[start:stop] for rows in first.values()])
        if stop:
            model.partial_fit(X_new[batch], y_new[batch])
        predicted = model.predict(X_new[rest], among=["two", "six"])
        described.append(per_class_accuracy(y_new[rest], predicted))
        if stop:
            shown = np.concatenate([rows[:stop] for rows in first.values()])
            images.append(per_class_accuracy(y_new[rest], nearest_mean(shown, rest)))
    return described, images


runs = [accuracies(seed) for seed in range(10)]
described = 100 * np.array([run[0] for run in runs])
images = 100 * np.array([run[1] for run in runs])

# %%

fig, panel = plt.subplots(figsize=(6.4, 4.0))
places = np.arange(len(counts))
for values, where, label in (
    (described, places, "description and images"),
    (images, places[1:], "images only"),
):
    mean, spread = values.mean(axis=0), values.std(axis=0)
    panel.plot(where, mean, marker="o", label=label)
    panel.fill_between(where, mean - spread, mean + spread, alpha=0.18)
panel.set(
    xticks=places,
    xticklabels=counts,
    xlabel="images of each new class",
    ylabel="accuracy between the two new classes, %",
    title="A description is worth the first images",
)
panel.legend(loc="lower right")
plt.show()
