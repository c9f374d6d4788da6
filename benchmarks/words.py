"""How far do words carry? Class names and descriptions beside attributes, chosen on validation.

    python benchmarks/words.py --root DATA [--attribute-names FILE] [--out FILE]

CUB: the benchmark's attributes, class names through the sentence encoder, names with a sentence of
the ten strongest attributes of the class, both kinds side by side, and the benchmark's own sentence
vectors. The names of the attributes are in CUB's archive (attributes.txt), not in the benchmark's
folder; without --attribute-names those rows are left out. Digits: names, descriptions of how a
digit is drawn, and the segments of a display. One seed. The descriptions below were not changed
after their first measurement; a trial with other, shorter ones had been seen before.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from _script import arguments, load, one_thread, write_record
from hgkt.data import GZSLDataset, write_attribute_file
from hgkt.estimators import HGKTClassifier
from hgkt.evaluation import evaluate
from hgkt.language import describe_classes, load_encoder, read_class_list

N_STRONGEST = 10  # about as many facts as a person puts into a sentence
DIGITS = {
    "zero": "One closed oval, empty inside.",
    "one": "A single straight vertical line.",
    "two": "A curve at the top that bends to the right, then a slanted line down to a flat line.",
    "three": "Two curves one above the other, both open to the left.",
    "four": (
        "An angle on the left, a horizontal line across, and a long vertical line on the right."
    ),
    "five": "A flat line at the top, a short line down on the left, then a belly open to the left.",
    "six": "A long curve on the left that ends in a closed loop in the lower half.",
    "seven": "A flat line at the top and a long slanted line down from its right end.",
    "eight": "Two closed loops, one above the other.",
    "nine": "A closed loop in the upper half with a line down on its right.",
}


@dataclass(frozen=True)
class Variant:
    """One row of the table: what classes are told by."""

    label: str
    attributes: str  # as load_dataset takes them
    sentence: str | None = None  # the first sentence that was encoded


def strongest(values: np.ndarray, names: Sequence[str], k: int = N_STRONGEST) -> str:
    """Return a sentence of the `k` largest attributes of a class."""
    order = np.argsort(-values, kind="stable")[:k]
    return "It has " + ", ".join(_phrase(names[column]) for column in order) + "."


def _phrase(name: str) -> str:
    """Turn 'has_wing_color::blue' into 'blue wing color'."""
    group, _, value = name.removeprefix("has_").partition("::")
    value = re.sub(r"_?\(.*\)", "", value)
    return f"{value} {group}".replace("_", " ")


def attribute_names(path: Path) -> list[str]:
    """Read CUB's attributes.txt: a number and a name a line."""
    return [line.split(maxsplit=1)[1].strip() for line in path.read_text().splitlines() if line]


def describe(
    folder: Path, stem: str, rows: dict[str, str], template: str | None = None
) -> tuple[str, str]:
    """Encode names and descriptions; return the file and the first sentence."""
    table = folder / f"{stem}.csv"
    pd.DataFrame({"name": rows.keys(), "description": rows.values()}).to_csv(table, index=False)
    described = describe_classes(read_class_list(table), load_encoder("minilm", template=template))
    file = write_attribute_file(folder / f"{stem}.parquet", described.file, described.descriptions)
    return str(file), described.sentences[0]


def cub_variants(root: str, folder: Path, names_file: Path | None) -> list[Variant]:
    """Return the rows of CUB."""
    data = load("CUB", root, attributes="original_att")
    untold = dict.fromkeys(data.class_names, "")
    names, sentence = describe(folder, "names", untold)
    bare, bare_sentence = describe(folder, "bare", untold, "{name}. {description}")
    variants = [
        Variant("attributes", "att"),
        Variant("names", names, sentence),
        Variant("names, bare template", bare, bare_sentence),
        Variant("attributes + names", f"att+{names}", sentence),
        Variant("sentence vectors of the benchmark", "sent"),
    ]
    if names_file is None:
        return variants
    known = attribute_names(names_file)
    texts = [strongest(row, known) for row in data.class_attributes]
    told, sentence = describe(folder, "told", dict(zip(data.class_names, texts, strict=True)))
    return [
        *variants,
        Variant("names and strongest attributes in words", told, sentence),
        Variant("attributes + names and strongest", f"att+{told}", sentence),
    ]


def digits_variants(folder: Path) -> list[Variant]:
    """Return the rows of the digits."""
    names, sentence = describe(folder, "digit-names", dict.fromkeys(DIGITS, ""))
    told, told_sentence = describe(folder, "digit-texts", DIGITS)
    only, only_sentence = describe(folder, "digit-only", DIGITS, "{description}")
    return [
        Variant("attributes", "att"),
        Variant("names", names, sentence),
        Variant("names and descriptions", told, told_sentence),
        Variant("descriptions without names", only, only_sentence),
        Variant("attributes + descriptions", f"att+{told}", told_sentence),
    ]


def run(variant: Variant, dataset: GZSLDataset) -> dict[str, Any]:
    """Choose on validation classes, test once, and return the record with its label."""
    blocks = dataset.about["attribute_blocks"]
    model = HGKTClassifier(device="cpu", attribute_blocks=blocks if len(blocks) > 1 else None)
    record = evaluate(model, dataset, select=True, random_state=0).to_dict()
    record["data"]["about"]["attributes"] = _without_folders(variant.attributes)
    return {"label": variant.label, "sentence": variant.sentence, **record}


def _without_folders(attributes: str) -> str:
    return "+".join(Path(kind).name for kind in attributes.split("+"))


def main() -> None:
    """Run every row and write the record."""
    parser = arguments(__doc__, "words")
    parser.add_argument("--attribute-names", type=Path)
    args = parser.parse_args()
    one_thread()
    results: dict[str, Any] = {"encoder": load_encoder("minilm").record, "rows": {}}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        told = {
            "digits": digits_variants(folder),
            "CUB": cub_variants(args.root, folder, args.attribute_names),
        }
        for name, variants in told.items():
            results["rows"][name] = rows = []
            for variant in variants:
                data = load(name, args.root, attributes=variant.attributes)
                rows.append(run(variant, data))
                print(f"{name}, {variant.label}: {rows[-1]['metrics']}", file=sys.stderr)
            write_record(args.out, results)


if __name__ == "__main__":
    main()
