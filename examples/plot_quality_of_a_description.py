"""
How good must a description be?
===============================

Descriptions contain mistakes, and a model can only learn what attributes mean from the classes it
has seen. Both are varied here on synthetic classes: noise in the attributes of ten new classes, and
the number of seen classes.
"""

import matplotlib.pyplot as plt
import numpy as np

import hgkt
from hgkt.data import make_synthetic

noises = np.array([0.0, 0.05, 0.1, 0.2, 0.3, 0.5])
numbers = (10, 25, 60)
seeds = range(4)

# %%
# Attributes lie between 0 and 1, so noise of 0.3 turns many a yes into a maybe. Adding, asking and
# removing the ten classes needs no training, which makes this a short loop.

accuracy = np.empty((len(numbers), len(seeds), len(noises)))
for i, n_seen in enumerate(numbers):
    for seed in seeds:
        data = make_synthetic(20 * (n_seen + 10), n_seen=n_seen, n_unseen=10, noise=1.0, seed=seed)
        X, y = data.rows("train")
        model = hgkt.HGKTClassifier(calibration=0)
        model.fit(X, y, class_attributes=data.attributes_of(data.seen_classes))
        X_test, y_test = data.rows("test_unseen")
        rng = np.random.default_rng(seed)
        for j, noise in enumerate(noises):
            truth = data.attributes_of(data.unseen_classes)
            told = {name: row + rng.normal(0, noise, len(row)) for name, row in truth.items()}
            model.add_classes(told)
            accuracy[i, seed, j] = (model.predict(X_test, among="unseen") == y_test).mean()
            model.remove_classes(list(told))

# %%

fig, panel = plt.subplots(figsize=(6.4, 4.0))
for marker, n_seen, values in zip("o^s", numbers, 100 * accuracy, strict=True):
    mean, spread = values.mean(axis=0), values.std(axis=0)
    panel.plot(noises, mean, marker=marker, label=f"{n_seen} seen classes")
    panel.fill_between(noises, mean - spread, mean + spread, alpha=0.15)
panel.axhline(10, color="0.4", linestyle="--", linewidth=1)
panel.annotate("chance", (0.5, 11), ha="right", fontsize=8)
panel.set(
    xlabel="standard deviation of the noise in a description",
    ylabel="accuracy among ten new classes, %",
    ylim=(0, 102),
    title="Seen classes teach what attributes mean; noise undoes it",
)
panel.legend(loc="upper right")
plt.show()
