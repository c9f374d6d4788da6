"""
The relation between classes is a kernel
========================================

Knowledge travels from class to class along a kernel on their attributes. That works as far as
classes that are described alike also look alike. On the digits both can be shown side by side, and
the agreement is weak: with ten classes and twenty attributes they are a hard zero-shot problem.
"""

import matplotlib.pyplot as plt
import numpy as np

import hgkt
from hgkt.closed_form import ClassKernel, KernelSettings

data = hgkt.load_dataset("digits")
names = list(data.class_names)
kernel = ClassKernel(KernelSettings("rbf", attribute_map="l2")).fit(data.class_attributes)

# %%
# How alike digits look: the cosine of their mean images, after the mean of all is taken off.

X, y = data.features, np.array(names)[data.labels]
means = np.stack([X[y == name].mean(axis=0) for name in names])
means = means - means.mean(axis=0)
means /= np.linalg.norm(means, axis=1, keepdims=True)
looks = means @ means.T

pairs = np.triu_indices(len(names), 1)
correlation = np.corrcoef(kernel.seen[pairs], looks[pairs])[0, 1]

# %%

fig, panels = plt.subplots(1, 3, figsize=(9.6, 3.6), width_ratios=[1, 1, 1.05])
for panel, values, title in (
    (panels[0], kernel.seen, "Described alike"),
    (panels[1], looks, "Look alike"),
):
    shown = np.where(np.eye(len(names), dtype=bool), np.nan, values)
    panel.imshow(shown)
    panel.set(xticks=range(10), yticks=range(10), xticklabels=names, yticklabels=names)
    panel.tick_params("x", rotation=90)
    panel.grid(visible=False)
    panel.set_title(title)
panels[2].scatter(kernel.seen[pairs], looks[pairs], s=22)
ranked = np.argsort(looks[pairs])
for index, place in ((ranked[-1], (-6, -12)), (ranked[0], (6, 0))):
    label = f"{names[pairs[0][index]]}, {names[pairs[1][index]]}"
    panels[2].annotate(
        label, (kernel.seen[pairs][index], looks[pairs][index]), xytext=place,
        textcoords="offset points", ha="right" if place[0] < 0 else "left", fontsize=8,
    )  # fmt: skip
panels[2].set(
    xlabel="kernel of the attributes",
    ylabel="cosine of the mean images",
    title=f"45 pairs: correlation {correlation:.2f}",
)
plt.show()
