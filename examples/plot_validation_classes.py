"""
Choose parameters without unseen classes
========================================

Unseen classes have no images to tune on. Seen classes can play their part: some are held out,
added by their attributes, and recognised beside the others. Does what is best for them carry over
to classes that are really new?
"""

import matplotlib.pyplot as plt
import numpy as np

import hgkt
from hgkt.data import make_synthetic

data = make_synthetic(n_instances=2500, n_seen=40, n_unseen=10, noise=2.5, seed=0)
X, y = data.rows("train")
shrinkages = [0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0]
ridges = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0]

# %%
# Forty-nine settings on three folds of validation classes; one decomposition serves them all.

search = hgkt.ClassFoldSearch(
    hgkt.HGKTClassifier(), stages=[{"shrinkage": shrinkages, "ridge": ridges}], random_state=0
)
search.fit(X, y, data.attributes_of(data.seen_classes))
tried = search.results_frame()
validation = tried.pivot(index="shrinkage", columns="ridge", values="mean").to_numpy()

# %%
# The same settings on classes that are really new. This is looked at here, and never used.

test = np.empty_like(validation)
for i, shrinkage in enumerate(shrinkages):
    for j, ridge in enumerate(ridges):
        model = hgkt.HGKTClassifier(shrinkage=shrinkage, ridge=ridge, calibration=0)
        test[i, j] = hgkt.evaluate(model, data, calibrate=False).metrics.ausuc

# %%

fig, panels = plt.subplots(1, 2, figsize=(8.4, 3.9), sharey=True)
best = np.unravel_index(validation.argmax(), validation.shape)
low, high = min(validation.min(), test.min()), max(validation.max(), test.max())
for panel, values, title in (
    (panels[0], validation, "Validation classes"),
    (panels[1], test, f"New classes: {test[best]:.1f} at the star, at most {test.max():.1f}"),
):
    image = panel.imshow(values, vmin=low, vmax=high, origin="lower", aspect="auto")
    panel.plot(best[1], best[0], marker="*", color="w", markeredgecolor="k", markersize=18)
    panel.grid(visible=False)
    panel.set(xticks=range(7), xticklabels=ridges, yticks=range(7), yticklabels=shrinkages)
    panel.set(xlabel="ridge λ", title=title)
panels[0].set_ylabel("shrinkage s of the in-class metric")
fig.colorbar(image, ax=panels, label="AUSUC, %")
plt.show()
