"""
A map of the classes
====================

Where do added classes land? Each is placed by its description alone, at the point where its images
are expected. Drawn beside images that were never shown to the model, five synthetic classes show
how well that works.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA

from hgkt.closed_form import ClosedFormTransfer, Ensemble, Member
from hgkt.data import make_synthetic

data = make_synthetic(n_instances=3000, n_seen=55, n_unseen=5, noise=0.8, seed=3)
X, y = data.rows("train")
seen, codes = np.unique(y, return_inverse=True)
described = data.attributes_of(data.seen_classes)
unseen = data.attributes_of(data.unseen_classes)

# %%
# `ClosedFormTransfer` is what works inside `HGKTClassifier`: each of its members, here one, embeds
# classes by their attributes in its metric of the space of images.

member = Member(feature_map="none", shrinkage=0.5)
transfer = ClosedFormTransfer(Ensemble((member,), metric="euclidean"))
attributes = np.stack([described[name] for name in seen])
transfer.fit(X, codes, attributes)
(known,) = transfer.vectors(attributes)
(added,) = transfer.vectors(np.stack(list(unseen.values())))

# %%
# The plane: the two principal components of the added classes.

plane = PCA(n_components=2).fit(added)
X_test, y_test = data.rows("test_unseen")
space = transfer.spaces[member.feature_map]
inside = space.into(space.mapped(X_test), space.center, member.shrinkage)
images, places = plane.transform(inside), plane.transform(added)

# %%

fig, panel = plt.subplots(figsize=(6.8, 5.0))
panel.scatter(*plane.transform(known).T, s=16, color="0.75", label="seen classes")
for number, (name, place) in enumerate(zip(unseen, places, strict=True)):
    color = f"C{number}"
    mine = images[y_test == name]
    panel.scatter(*mine.T, s=10, color=color, alpha=0.45)
    panel.plot(*np.stack([place, mine.mean(axis=0)]).T, color=color, linewidth=1)
    panel.scatter(*place, s=110, marker="D", color=color, edgecolor="k", zorder=4)
    panel.annotate(
        name, place, xytext=(8, 7), textcoords="offset points", weight="bold", zorder=5,
        bbox={"boxstyle": "round,pad=0.15", "facecolor": "w", "edgecolor": "none", "alpha": 0.7},
    )  # fmt: skip
panel.scatter([], [], s=70, marker="D", color="w", edgecolor="k", label="added by description")
panel.scatter([], [], s=10, color="C0", label="its images (never shown)")
panel.set(
    xlabel="first principal component",
    ylabel="second principal component",
    title="Classes placed by their description lie near their images",
)
panel.legend(loc="best")
plt.show()
