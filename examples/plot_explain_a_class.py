"""
What a new class is made from
=============================

A class that nobody has seen an image of is put together from classes that were seen: its embedding
is a weighted sum of their means, with positive and negative weights. On digits the features are
pixels, so the sum can be looked at.
"""

import matplotlib.pyplot as plt
import numpy as np

import hgkt

data = hgkt.load_dataset("digits", unseen=("two", "six"))
X, y = data.rows("train")
model = hgkt.HGKTClassifier(feature_map="none", calibration=0)
model.fit(X, y, class_attributes=data.attributes_of(data.seen_classes))
model.add_classes(data.attributes_of(data.unseen_classes))

# %%
# `explain_class` names the weights. The imagined image is the mean of all seen class means plus the
# weighted deviations from it.

means = {name: X[y == name].mean(axis=0) for name in model.seen_classes_}
center = np.mean(list(means.values()), axis=0)


def imagine(name):
    sources = model.explain_class(name).sources
    return center + sum(source.weight * (means[source.label] - center) for source in sources)


# %%
# Left: the weights. Middle: the imagined mean. Right: the true mean of images that the model has
# never seen.

X_test, y_test = data.rows("test_unseen")
fig, panels = plt.subplots(2, 3, figsize=(7.6, 4.8), width_ratios=[2.2, 1, 1])
for row, name in zip(panels, ("two", "six"), strict=True):
    sources = model.explain_class(name).sources
    labels, weights = zip(*[(s.label, s.weight) for s in sources], strict=True)
    row[0].barh(labels, weights, color=["C0" if w > 0 else "C1" for w in weights])
    row[0].axvline(0, color="0.4", linewidth=0.8)
    row[0].invert_yaxis()
    row[0].set(title=f"“{name}” is made from", xlabel="weight of the seen class")
    for panel, image, title in (
        (row[1], imagine(name), "imagined"),
        (row[2], X_test[y_test == name].mean(axis=0), "true mean"),
    ):
        panel.imshow(image.reshape(8, 8), cmap="Greys", vmin=0, vmax=16)
        panel.set(title=title, xticks=[], yticks=[])
        panel.grid(visible=False)
        panel.spines[:].set_visible(False)
plt.show()
