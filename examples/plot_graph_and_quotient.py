"""
A graph that is never stored
============================

The paper's graph joins every pair of images of a class. All images of a class carry the same
attributes, so they fall into two kinds, ordinary and representative, and the whole graph collapses
to two rows per class without loss.
"""

import matplotlib.pyplot as plt
import numpy as np

import hgkt
from hgkt.graph import Quotient, construct_graph

data = hgkt.load_dataset("digits")
X, y = data.rows("train")
names, codes = np.unique(y, return_inverse=True)
described = data.attributes_of(data.seen_classes)
attributes = np.stack([described[name] for name in names])
graph = construct_graph(X, codes, attributes, k=2)
chosen = graph.representatives
quotient = Quotient.from_graph(graph)

# %%
# A layer of the network averages over neighbours. Over all images, and over the two rows of each
# class: the same numbers.

states = attributes[codes]
neighbours = [graph.neighbors_of(i) for i in range(len(X))]
full = np.stack([states[rows].mean(axis=0) for rows in neighbours])
collapsed = quotient.mixing() @ np.concatenate([attributes, attributes])
difference = max(
    np.abs(full[chosen] - collapsed[len(names) :]).max(),
    *(np.abs(full[i] - collapsed[codes[i]]).max() for i in range(len(X)) if i not in chosen),
)
print(f"largest difference: {difference:.1e}")

# %%
# Left: the classes that a representative averages over. Right: what is stored.

fig, (left, right) = plt.subplots(1, 2, figsize=(8.6, 4.2), width_ratios=[1.1, 1])
angles = 2 * np.pi * np.arange(len(names)) / len(names)
places = np.stack([np.cos(angles), np.sin(angles)], axis=1)
for code, place in enumerate(places):
    for other in graph.neighbors.of(code):
        left.annotate(
            "", places[other], xytext=place,
            arrowprops={"arrowstyle": "-|>", "color": "C0", "shrinkA": 22, "shrinkB": 22},
        )  # fmt: skip
    left.text(
        *place, names[code], ha="center", va="center",
        bbox={"boxstyle": "round,pad=0.4", "facecolor": "w", "edgecolor": "C0"},
    )  # fmt: skip
left.set(xlim=(-1.35, 1.35), ylim=(-1.3, 1.3), aspect="equal", title="Two nearest classes of each")
left.axis("off")
sizes = {
    "edges between\nall images": graph.n_edges("intra") + graph.n_edges("inter"),
    "entries of\nthe quotient": quotient.mixing().nnz,
}
bars = right.bar(sizes.keys(), sizes.values(), color=["C6", "C1"], width=0.55)
right.bar_label(bars, labels=[f"{size:,}" for size in sizes.values()], padding=3)
right.set(yscale="log", ylim=(1, 1e6), ylabel="numbers to store", title="Equal results")
right.grid(visible=False, axis="x")
plt.show()
