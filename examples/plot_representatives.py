"""
Which image stands for a class?
===============================

Algorithm 1 of the paper takes the instance that is nearest to the Wasserstein barycenter of its
class. Beside it: the instance nearest to the mean, and one drawn at random.
"""

import matplotlib.pyplot as plt
import numpy as np

import hgkt
from hgkt.transport import select_representatives

data = hgkt.load_dataset("digits")
X, codes = data.features, data.labels
names = list(data.class_names)
ways = {
    "Wasserstein": "wasserstein",
    "nearest to mean": "euclidean",
    "random": "random",
}
found = {
    label: select_representatives(X, codes, len(names), method=method, random_state=0)
    for label, method in ways.items()
}

# %%
# The mean of each class stands on top. Pixels are read as channels in a row, as the paper reads the
# channels of a network; which image is nearest depends on that order.

fig, panels = plt.subplots(4, 10, figsize=(8.6, 4.0))
for column, name in enumerate(names):
    rows = [X[codes == column].mean(axis=0), *(X[r.indices[column]] for r in found.values())]
    for panel, image in zip(panels[:, column], rows, strict=True):
        panel.imshow(np.reshape(image, (8, 8)), cmap="Greys")
        panel.set(xticks=[], yticks=[])
        panel.grid(visible=False)
        panel.spines[:].set_visible(False)
    panels[0, column].set_title(name, loc="center")
for panel, label in zip(panels[:, 0], ["mean", *ways], strict=True):
    panel.set_ylabel(label, rotation=0, ha="right", va="center", labelpad=8)
fig.suptitle("Representatives of ten digits, chosen in three ways")
plt.show()
