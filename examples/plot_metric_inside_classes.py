"""
The relation inside classes is a metric
=======================================

The paper joins all instances of a class to a complete graph. Its Laplacian is the within-class
scatter, whose inverse square root is a metric: directions in which instances of one class differ
anyway count less. Two features and three classes show what that does.
"""

import matplotlib.pyplot as plt
import numpy as np

import hgkt

rng = np.random.default_rng(3)
stretch = np.array([[2.3, 1.9], [0.0, 0.45]])
centers = {"left": (0.0, 0.0), "right": (3.2, 0.4), "upper": (1.2, 3.2)}
X = np.concatenate([rng.normal(size=(150, 2)) @ stretch + place for place in centers.values()])
y = np.repeat(list(centers), 150)
attributes = dict(zip(centers, np.eye(3), strict=True))

# %%
# The same model with and without the relation. Attributes are one-hot: nothing is transferred, so
# what is left is the metric.

grid = np.stack(np.meshgrid(np.linspace(-8, 11, 300), np.linspace(-7, 10, 300)), axis=-1)
fig, panels = plt.subplots(1, 2, figsize=(8.4, 4.0), sharey=True)
for panel, intra, title in (
    (panels[0], False, "Without the relation"),
    (panels[1], True, "With it"),
):
    model = hgkt.HGKTClassifier(
        feature_map="none", metric="euclidean", intra=intra, shrinkage=0.05, kernel="linear",
        ridge=1e-6, calibration=0,
    ).fit(X, y, attributes)  # fmt: skip
    regions = np.searchsorted(model.classes_, model.predict(grid.reshape(-1, 2)))
    panel.contourf(
        *np.moveaxis(grid, -1, 0), regions.reshape(300, 300), levels=[-0.5, 0.5, 1.5, 2.5],
        colors=["C0", "C1", "C2"], alpha=0.16,
    )  # fmt: skip
    for color, name in zip(("C0", "C1", "C2"), model.classes_, strict=True):
        panel.scatter(*X[y == name].T, s=8, color=color, label=name)
    accuracy = (model.predict(X) == y).mean()
    panel.set(xlabel="first feature", title=f"{title}: {accuracy:.0%} right")
    panel.grid(visible=False)
panels[0].set_ylabel("second feature")
panels[0].legend(loc="upper left", title="class")
plt.show()
