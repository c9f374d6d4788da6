"""Intents in one space: hgkt beside zero-shot, Tip-Adapter and discriminant analysis on CLINC150.

    python benchmarks/one_space.py --root DATA [--cache FOLDER] [--out FILE]

Sentences and the names of the 150 intents go through one encoder (minilm). A third of each domain
is unseen: five intents, drawn by the seed. Methods learn from the authors' train sentences of the
seen intents; what they have to choose is chosen on validation classes among these, by one rule for
all. The authors' test sentences are looked at once.

The sentences that fit no intent (1,000, the authors' oos_test) are nobody's class: how well novelty
tells them from sentences of seen and of described intents, and how many of each kind
``predict(X, reject=0.05)`` rejects. Beside them stands how often a 90 % set holds the true intent.

Encoding 23,700 sentences takes minutes. With --cache it is done once; an interrupted one goes on.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from _script import arguments, one_thread, write_record
from hgkt import UNKNOWN
from hgkt.data import GZSLDataset
from hgkt.estimators.methods import method_for
from hgkt.evaluation import evaluate
from hgkt.items import read_texts

PARTS = ("train", "test", "oos_test")
METHODS = ("hgkt", "zero-shot", "tip-adapter", "gda", "ridge")
N_SEEDS = 3
N_UNSEEN = 5  # of the fifteen intents of each domain
STRANGE = "oos"
SHOWN = ("zsl", "ts", "tr", "H", "ausuc")


class Sentences:
    """CLINC150, encoded: its sentences, its intents and their domains.

    Parameters
    ----------
    root : Path
        Folder with ``data_full.json`` and ``domains.json``.
    cache : Path or None
        Folder that keeps encoded sentences.
    """

    def __init__(self, root: Path, cache: Path | None) -> None:
        content = json.loads((root / "data_full.json").read_text("utf-8"))
        self.domains: dict[str, list[str]] = json.loads((root / "domains.json").read_text("utf-8"))
        rows = [(text, intent, part) for part in PARTS for text, intent in content[part]]
        texts, intents, parts = map(list, zip(*rows, strict=True))
        found = read_texts(texts, intents, device="cpu", cache=cache, progress=_tell).dataset
        self.parts = np.array(parts)
        self.intents = np.array(intents)
        self.features = found.features
        self.about = found.about
        self.names = [name for name in found.class_names if name != STRANGE]
        self.vectors = found.class_attributes[[found.class_names.index(n) for n in self.names]]

    def unseen(self, seed: int) -> list[str]:
        """Return the intents that a seed hides: five of each domain."""
        rng = np.random.default_rng(seed)
        drawn = [
            rng.choice(sorted(intents), N_UNSEEN, replace=False)
            for _, intents in sorted(self.domains.items())
        ]
        return [str(name) for names in drawn for name in names]

    def dataset(self, seed: int) -> GZSLDataset:
        """Return the sentences as a data set in which some intents have no train rows."""
        hidden = np.isin(self.intents, self.unseen(seed))
        train, test = ((self.parts == part) for part in ("train", "test"))
        used = np.flatnonzero((train & ~hidden) | test)
        code = {name: position for position, name in enumerate(self.names)}
        return GZSLDataset(
            name="CLINC",
            features=self.features[used],
            labels=np.array([code[name] for name in self.intents[used]]),
            class_names=tuple(self.names),
            class_attributes=self.vectors,
            train=np.flatnonzero(train[used]),
            test_seen=np.flatnonzero((test & ~hidden)[used]),
            test_unseen=np.flatnonzero((test & hidden)[used]),
            about=self.about,
        ).validate()


def _tell(stage: str, done: int, total: int, _values: dict[str, float]) -> None:
    if stage == "texts":
        print(f"\r{done} of {total} sentences encoded", end="", file=sys.stderr)


def run(sentences: Sentences, method: str, seed: int) -> dict[str, Any]:
    """Choose on validation classes, test once, and return what came out."""
    dataset = sentences.dataset(seed)
    strange: dict[str, Any] = {}

    def on_test(model: Any, _curve: Any) -> None:
        if model.confidence_ is not None:
            odd = sentences.features[sentences.parts == "oos_test"]  # they fit no intent
            strange.update(_strange(model, dataset, odd))

    estimator = method_for(dataset, method, device="cpu", random_state=seed)
    record = evaluate(estimator, dataset, select=True, random_state=seed, on_test=on_test)
    found = record.to_dict()
    sets = {
        group: {name: found[f"confidence_{group}"][name] for name in ("set_coverage", "set_size")}
        for group in ("seen", "unseen")
        if found[f"confidence_{group}"]
    }
    return {
        "method": method,
        "seed": seed,
        **{name: found["metrics"][name] for name in SHOWN},
        "seconds": found["timings"]["total"],
        "selected": found["selected"],
        "validation": found["validation"],
        "out_of_scope": strange,
        "sets": sets,
    }


def _strange(
    model: Any, dataset: GZSLDataset, strange: NDArray[np.float32]
) -> dict[str, dict[str, float]]:
    """Return AUROC and rejection of sentences that fit no intent, beside those that do."""
    rows = {
        "seen": dataset.rows("test_seen")[0],
        "described": dataset.rows("test_unseen")[0],
        "out_of_scope": strange,
    }
    novelty = {name: model.novelty(X) for name, X in rows.items()}
    odd = novelty["out_of_scope"]
    auroc = {}
    for name in ("seen", "described"):
        is_odd = np.repeat([0, 1], [len(novelty[name]), len(odd)])
        auroc[name] = 100 * float(roc_auc_score(is_odd, np.concatenate([novelty[name], odd])))
    rejected = {
        name: 100 * float((model.predict(X, reject=0.05) == UNKNOWN).mean())
        for name, X in rows.items()
    }
    return {"auroc": auroc, "rejected": rejected}


def main() -> None:
    """Run every method and write the record."""
    parser = arguments(__doc__, "one_space")
    parser.add_argument("--cache", type=Path, help="folder that keeps encoded sentences")
    args = parser.parse_args()
    one_thread()
    sentences = Sentences(Path(args.root) / "CLINC", args.cache)
    rows: list[dict[str, Any]] = []
    for seed in range(N_SEEDS):
        for method in METHODS:
            rows.append(run(sentences, method, seed))
            shown = {name: round(rows[-1][name], 1) for name in ("seconds", *SHOWN)}
            print(f"{method}, seed {seed}: {shown}", file=sys.stderr, flush=True)
            write_record(args.out, {"encoder": sentences.about["text_encoder"], "rows": rows})


if __name__ == "__main__":
    main()
