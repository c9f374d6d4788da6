"""
Route sentences to a class that was only described
==================================================

Thirty sentences of ten intents are learned. *Report lost card* has none: its name and one line of
explanation go through the encoder that reads the sentences, so that both are vectors of one space.
The encoder comes with the extra ``language``; nothing is downloaded.
"""

import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import hgkt

with warnings.catch_warnings():  # the encoder's libraries speak of their own future
    warnings.simplefilter("ignore")
    here = Path(globals().get("__file__", "here")).parent  # the gallery runs it in its folder
    model = hgkt.train_on_texts(here / "sentences.csv", classes=here / "intents.csv", device="cpu")
    sentences = [
        "I lost my card",
        "somebody stole my credit card",
        "is it cold outside",
        "put on a song",
        "how much is left on my account",
    ]
    answers = model.rank(sentences, top=3)
    intents = sorted({guess.label for row in answers for guess in row})
    shares = model.predict_proba(sentences)

# %%
# Each sentence with the intents that come into question. Stars are known by a description alone.

columns = [model.classes_.tolist().index(name) for name in intents]
known = set(model.seen_classes_.tolist())
fig, panel = plt.subplots(figsize=(7.2, 3.4), layout="constrained")
picture = panel.imshow(100 * np.asarray(shares)[:, columns], cmap="Greens", vmin=0, vmax=100)
panel.set_xticks(range(len(intents)), [n if n in known else f"{n} *" for n in intents])
panel.tick_params(axis="x", rotation=35)
panel.set_yticks(range(len(sentences)), sentences)
panel.set_xlabel("intent")
panel.grid(visible=False)
fig.colorbar(picture, label="probability in percent")
right = sum(row[0].label == "report lost card" for row in answers[:2])
panel.set_title(f"{right} of 2 sentences find a class that has no sentence of its own")
plt.show()
