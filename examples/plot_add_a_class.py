"""
Add a class that was never seen
===============================

Eight handwritten digits are learned; *two* and *six* are hidden. Then *six* is added by twenty
numbers that say how it is drawn, and images of it are recognised from that moment on. Nothing is
trained again.
"""

import matplotlib.pyplot as plt

import hgkt

data = hgkt.load_dataset("digits", unseen=("two", "six"))
X, y = data.rows("train")
model = hgkt.HGKTClassifier(calibration=0.2)
model.fit(X, y, class_attributes=data.attributes_of(data.seen_classes))

# %%
# Sixteen images of a six. The model has no word for them yet, and takes the most similar digit it
# knows.

X_test, y_test = data.rows("test_unseen")
sixes = X_test[y_test == "six"]
before = model.predict(sixes)

# %%
# One line adds the class. The twenty attributes are the lit and unlit segments of a seven-segment
# display, and six shapes such as *loop in the lower half*.

six = data.attributes_of(data.unseen_classes)["six"]
model.add_classes({"six": six})
after = model.predict(sixes)
print(f"right before: {(before == 'six').mean():.0%}, after: {(after == 'six').mean():.0%}")

# %%
# The picture: what each image was called before the class was added, and what it is called now.

fig, panels = plt.subplots(2, 8, figsize=(8.4, 2.9))
for panel, image, old, new in zip(panels.flat, sixes, before, after, strict=False):
    panel.imshow(image.reshape(8, 8), cmap="Greys")
    panel.set(xticks=[], yticks=[])
    panel.grid(visible=False)
    panel.spines[:].set_visible(False)
    color = "C2" if new == "six" else "C1"
    panel.set_title(f"{old}\n→ {new}", loc="center", color=color, fontsize=9)
fig.suptitle(
    f"{(after == 'six').mean():.0%} of {len(sixes)} images of a six are right "
    "once its description is known"
)
plt.show()
