"""
Calibration: seen against unseen
================================

A model favours the classes it has seen. Taking a constant γ off their scores trades accuracy on
seen classes for accuracy on unseen ones. The curve shows every trade that a model offers, and the
area below it (AUSUC) compares models whatever their γ.
"""

import matplotlib.pyplot as plt
import numpy as np

import hgkt
from hgkt.evaluation import harmonic_mean, per_class_accuracy, seen_unseen_curve

data = hgkt.load_dataset("digits", unseen=("two", "six"))
X, y = data.rows("train")
seen, unseen = data.rows("test_seen"), data.rows("test_unseen")
attributes = data.attributes_of(data.seen_classes)

# %%
# Calibration is chosen on validation classes: seen digits that play the unseen ones. No test image
# is read.

search = hgkt.ClassFoldSearch(hgkt.HGKTClassifier(), stages=[], random_state=0)
search.fit(X, y, attributes)
search.add_classes(data.attributes_of(data.unseen_classes))
model = search.best_estimator_
chosen = [per_class_accuracy(labels, model.predict(rows)) for rows, labels in (seen, unseen)]

order = model.candidates()  # columns of seen classes, then those of added ones
curve = seen_unseen_curve(
    model.score_classes(seen[0], penalty=False)[:, order], seen[1],
    model.score_classes(unseen[0], penalty=False)[:, order], unseen[1],
    model.classes_[order], n_seen=len(model.seen_classes_),
)  # fmt: skip

# %%
# Left: all trades. Right: their harmonic mean H over γ. What validation classes chose is not the
# best for these test images, which nobody could have known.

fig, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.8))
left.plot(100 * curve.unseen, 100 * curve.seen)
left.fill_between(100 * curve.unseen, 100 * curve.seen, alpha=0.12)
left.set(
    xlabel="accuracy on unseen digits, %",
    ylabel="accuracy on seen digits, %",
    title=f"Every trade; area {100 * curve.area:.0f} %",
)
gammas = np.linspace(-0.1, 0.7, 400)
right.plot(gammas, [100 * harmonic_mean(*curve.at(gamma)) for gamma in gammas])
right.axhline(100 * harmonic_mean(*chosen), color="C2", linestyle="--")
right.set(xlabel="calibration γ", ylabel="harmonic mean H, %", title="H over γ")
best = curve.best()[1]
for (s, u), gamma, marker, color, label in (
    (curve.at(0.0), 0.0, "s", "C1", "no calibration"),
    (chosen, None, "o", "C2", "chosen on validation classes"),
    (curve.at(best), best, "*", "C5", "best in hindsight"),
):
    style = {"marker": marker, "color": color, "markersize": 10, "linestyle": "", "zorder": 3}
    left.plot(100 * u, 100 * s, label=label, **style)
    if gamma is not None:
        right.plot(gamma, 100 * harmonic_mean(s, u), **style)
left.legend(loc="lower left")
plt.show()
