"""
A model behind HTTP
===================

A service runs in this process, on a free port; in life it is ``hgkt serve`` on another machine. A
client asks it for predictions, adds a class by its description, and asks again. Numbers go over the
wire as they lie in memory, and nothing is trained.
"""

import contextlib
import tempfile
import threading
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import uvicorn

import hgkt
from hgkt.serving import ServiceSettings, create_app

data = hgkt.load_dataset("digits", unseen=("two", "six"))
X, y = data.rows("train")
model = hgkt.HGKTClassifier(calibration=0.2)
model.fit(X, y, class_attributes=data.attributes_of(data.seen_classes))


# %%
# The service: a model folder and uvicorn.


@contextlib.contextmanager
def running(model):
    with tempfile.TemporaryDirectory() as folder:
        app = create_app(ServiceSettings(model.save(Path(folder) / "digits")))
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        server.should_exit = True
        thread.join()


# %%
# The client: three calls. ``rank`` returns the best classes of each row with their scores.

X_test, y_test = data.rows("test_unseen")
sixes = X_test[y_test == "six"]
with running(model) as address, hgkt.Client(address) as client:
    before = client.rank(sixes, top_k=3)
    client.add_class("six", vector=data.attributes_of(data.unseen_classes)["six"])
    after = client.rank(sixes, top_k=3)

print(f"right before: {(before.labels[:, 0] == 'six').mean():.0%}", end=", ")
print(f"after: {(after.labels[:, 0] == 'six').mean():.0%}")

# %%
# The picture: what images of a six are called, before and after the class was added.

names = np.unique([before.labels[:, 0], after.labels[:, 0]])
fig, panel = plt.subplots(figsize=(7.2, 3.2))
for shift, found, when in ((-0.2, before, "before"), (0.2, after, "after")):
    counts = [(found.labels[:, 0] == name).sum() for name in names]
    panel.bar(np.arange(len(names)) + shift, counts, width=0.4, label=f"{when} the class was added")
panel.set_xticks(range(len(names)), names)
panel.set(ylabel="images", xlabel="answer of the service")
panel.set_title(f"What the service calls {len(sixes)} images of a six")
panel.legend()
plt.show()
