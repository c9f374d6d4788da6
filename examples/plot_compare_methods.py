"""
Methods side by side
====================

Every method has the same contract, so a comparison is a loop. Synthetic classes whose means are a
smooth, non-linear map of their attributes; parameters of each method are chosen on validation
classes, and the area under the seen–unseen curve does not depend on a calibration.
"""

import time

import matplotlib.pyplot as plt

import hgkt
from hgkt.data import make_synthetic
from hgkt.estimators.methods import build_method

data = make_synthetic(n_instances=1500, n_features=48, n_seen=30, n_unseen=10, noise=2.0, seed=2)
names = ["ridge", "eszsl", "sae", "gfzsl", "hgkt"]

# %%

results = {}
for name in names:
    start = time.perf_counter()
    record = hgkt.evaluate(build_method(name), data, select=True, metric="ausuc", random_state=0)
    results[name] = (record.metrics.ausuc, record.metrics.zsl, time.perf_counter() - start)

# %%
# Methods are ordered by the area. Accuracy among unseen classes alone hides how much a method is
# drawn to the seen ones. This is one synthetic problem: with less noise the order is another, and
# :doc:`../methods` has real data.

order = sorted(names, key=lambda name: results[name][0])
fig, panel = plt.subplots(figsize=(6.8, 3.6))
for row, name in enumerate(order):
    ausuc, zsl, _ = results[name]
    panel.plot([ausuc, zsl], [row, row], color="0.8", linewidth=3, zorder=1)
panel.scatter([results[n][0] for n in order], range(len(order)), s=70, label="AUSUC", zorder=2)
panel.scatter(
    [results[n][1] for n in order], range(len(order)), s=70, marker="D",
    label="accuracy among unseen classes", zorder=2,
)  # fmt: skip
panel.set(
    yticks=range(len(order)),
    yticklabels=[f"{name}  ({results[name][2]:.1f} s)" for name in order],
    xlabel="percent",
    title="Five methods on forty synthetic classes",
)
panel.legend(loc="upper left")
plt.show()
