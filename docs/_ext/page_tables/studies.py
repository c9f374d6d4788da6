"""Tables from the records of the scripts in ``benchmarks``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from page_tables.markdown import METRICS, spread, table
from page_tables.records import Records

_CALIBRATIONS = ("model", "matched", "graded", "kept", "none")
_IMAGES_ONLY = "images only"
_LONGEST_SENTENCE = 40


def growing(records: Records) -> str:
    """Return what images of added classes are worth, data set by data set."""
    return "\n\n".join(_grown(result) for result in records.script("growing")["results"])


def _grown(result: dict[str, Any]) -> str:
    groups: dict[tuple[int, str], dict[str, list[dict[str, Any]]]] = {}
    for row in result["rows"]:
        group = groups.setdefault((row["n_images"], row["method"]), {})
        group.setdefault(row["calibration"], []).append(row)
    columns = [(title, "model", name) for title, name in METRICS.items() if title != "H"]
    columns += [(f"H, {name}", name, "H") for name in _CALIBRATIONS]
    lines = []
    for (n, method), group in sorted(groups.items()):
        # The γ of the closed form, on its scale of scores, says nothing about class means.
        if method == _IMAGES_ONLY:
            group = {"matched": group["matched"], "none": group["none"]}
        readings = [_reading(group, name, metric) for _, name, metric in columns]
        cells = [
            spread([row[metric] for row in rows]) if rows else "–"
            for rows, (_, _, metric) in zip(readings, columns, strict=True)
        ]
        lines.append([str(n), "attributes" if n == 0 else method, *cells])
    n_draws = len({row["seed"] for row in result["rows"]})
    header = ["images", "classes known by", *(title for title, _, _ in columns)]
    chosen = "the default ensemble"
    if "members" not in result["params"]:
        values = {name: value for name, value in result["params"].items() if value is not None}
        chosen = "one closed form, " + ", ".join(f"{n} {value}" for n, value in values.items())
    return (
        f"**{result['data']}** ({result['features']}): {result['n_old_classes']} classes learned "
        f"from images, {result['n_new_classes']} added by attributes; mean ± standard deviation "
        f"over {n_draws} draws of the images. Chosen on validation classes: {chosen}, "
        f"γ {result['calibration']:.4f}.\n\n{table(header, lines, text=['classes known by'])}"
    )


def _reading(
    group: dict[str, list[dict[str, Any]]], name: str, metric: str
) -> list[dict[str, Any]]:
    """Return the rows of a reading of γ; accuracies of class means are at the matched one."""
    if name == "model" and "model" not in group and metric != "H":
        name = "matched"
    return group.get(name, [])


def words(records: Records, data: str) -> str:
    """Return what classes are told by and how far that carries."""
    lines = []
    for row in records.script("words", fixed=True)["rows"][data]:
        sentence = row["sentence"] or ""
        said = f": “{sentence}”" if 0 < len(sentence) <= _LONGEST_SENTENCE else ""
        score = f"{row['validation']['score']:.1f}"
        numbers = [f"{row['metrics'][name]:.1f}" for name in METRICS.values()]
        lines.append([f"{row['label']}{said}", score, *numbers])
    return table(["classes are told by", "validation", *METRICS], lines)


def one_space(records: Records) -> str:
    """Return what methods reach whose rows and class vectors share one space."""
    lines = [
        [
            f"`{method}`",
            *(spread([row[name] for row in rows]) for name in ("zsl", "ts", "tr", "H", "ausuc")),
            f"{sum(row['seconds'] for row in rows) / len(rows):.0f}",
        ]
        for method, rows in _grouped(records.script("one_space")["rows"], "method")
    ]
    return table(["method", *METRICS, "seconds"], lines)


def out_of_scope(records: Records) -> str:
    """Return what becomes of sentences that fit no class, beside those that do."""
    lines = []
    for method, rows in _grouped(records.script("one_space")["rows"], "method"):
        known = [row for row in rows if row["out_of_scope"]]
        if not known:
            continue
        strange = [row["out_of_scope"] for row in known]
        numbers = [
            *([one["auroc"][name] for one in strange] for name in ("seen", "described")),
            *(
                [one["rejected"][name] for one in strange]
                for name in ("seen", "described", "out_of_scope")
            ),
            *([row["sets"][name]["set_coverage"] for row in known] for name in ("seen", "unseen")),
        ]
        lines.append([f"`{method}`", *map(spread, numbers)])
    header = ["AUROC, seen", "AUROC, described", "rejected: seen", "described", "no intent"]
    return table(["method", *header, "in a 90 % set: seen", "described"], lines)


def _grouped(rows: list[dict[str, Any]], *names: str) -> Iterator[tuple[Any, list[dict[str, Any]]]]:
    """Yield rows that have the same values under some names, and these values."""
    groups: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    for values, own in groups.items():
        yield values if len(names) > 1 else values[0], own


def ensemble(records: Records) -> str:
    """Return what the parts of the ensemble are worth on classes that no choice has seen."""
    rows = records.script("ensemble")["rows"]
    sets = list(dict.fromkeys(row["data"] for row in rows))
    lines = []
    for name in dict.fromkeys(row["variant"] for row in rows):
        own = {row["data"]: row for row in rows if row["variant"] == name}
        lines.append([name, *(f"{own[d]['AUSUC']:.2f} / {own[d]['H']:.1f}" for d in sets)])
    titles = [name.replace(":sent", ", sentences") for name in sets]
    return table(["AUSUC / H", *titles], lines)


def calibration(records: Records) -> str:
    """Return H by the number of added classes and by how γ is set."""
    ways = {"none": "γ = 0", "one number": "one γ", "law": "the law", "best": "best γ (oracle)"}
    lines = [
        [row["data"], str(row["n_seen"]), str(row["n_added"]),
         *(f"{row['H'][way]:.1f}" for way in ways)]
        for row in records.script("calibration")["rows"]
    ]  # fmt: skip
    return table(["data", "seen", "added", *(f"H, {title}" for title in ways.values())], lines)


def favour(records: Records) -> str:
    """Return what added classes cost on test rows and what was expected, by what γ favours."""
    lines = [
        [row["data"], f"`{row['favour']}`", str(row["n_seen"]), str(row["n_added"]),
         f"{row['before']:.1f} → {row['learned']:.1f}", f"{row['added']:.1f}", f"{row['mean']:.1f}",
         f"{row['expected_before']:.1f} → {row['expected_learned']:.1f}",
         f"{row['expected_added']:.1f}"]
        for row in records.script("favour")["rows"]
    ]  # fmt: skip
    header = ["data", "favoured", "learned", "added", "learned classes", "added ones",
              "all classes", "learned, expected", "added, expected"]  # fmt: skip
    return table(header, lines, text=["favoured"])


def few_classes(records: Records) -> str:
    """Return H, and how many seen classes are never answered, by the number of seen classes."""
    lines = []
    for row in records.script("few_classes")["rows"]:
        gains = [f"{row[v]['gain']:+.1f} ± {row[v]['error']:.1f}" for v in ("distances", "default")]
        silent = [f"{row[v]['silent']:.0f} %" for v in ("cosines", "distances", "default")]
        about = [row["data"], *(str(row[key]) for key in ("n_seen", "n_added", "n_draws"))]
        lines.append([*about, f"{row['cosines']['H']:.1f}", *gains, *silent])
    header = ["data", "seen", "added", "draws", "H, cosines", "distances", "default",
              "silent, cosines", "silent, distances", "silent, default"]  # fmt: skip
    return table(header, lines)


def confidence(records: Records) -> str:
    """Return calibration error, log loss and sets, for seen and unseen rows apart."""
    columns = {"ece": "calibration error", "ece_before": "before", "log_loss": "log loss",
               "log_loss_before": "before", "set_coverage": "in a 90 % set",
               "set_size": "size of the set"}  # fmt: skip
    lines = [
        [data, group, *(spread([row[group][name] for row in rows], 2 if "log" in name else 1)
                        for name in columns)]
        for data, rows in _grouped(records.script("confidence")["rows"], "data")
        for group in ("seen", "unseen")
    ]  # fmt: skip
    return table(["data", "rows", *columns.values()], lines, text=["rows"])


def unknown_classes(records: Records) -> str:
    """Return how rows of classes that were never added are told from known ones."""
    columns = {"validation_auroc": "AUROC, validation", "auroc": "AUROC",
               "auroc_softmax": "softmax", "auroc_mahalanobis": "Mahalanobis",
               "rejected_known": "known rejected at 5 %",
               "rejected_unknown": "unknown rejected", "oscr": "OSCR",
               "oscr_softmax": "softmax"}  # fmt: skip
    lines = [
        [f"{data} ({rows[0]['unknown']['n_unknown']})",
         *(spread([row["unknown"][name] for row in rows]) for name in columns)]
        for data, rows in _grouped(records.script("confidence")["rows"], "data")
    ]  # fmt: skip
    return table(["data (never added)", *columns.values()], lines)


def beside_mapie(records: Records) -> str:
    """Return 90 % sets among seen classes beside MAPIE's, and what all answers cost."""
    columns = {"coverage_mapie": "MAPIE covers", "size_mapie": "size",
               "coverage_own": "hgkt covers", "size_own": "size"}  # fmt: skip
    lines = [
        [data, *(spread([row["mapie"][name] for row in rows]) for name in columns),
         f"{sum(row['cost']['ratio'] for row in rows) / len(rows):.2f}"]
        for data, rows in _grouped(records.script("confidence")["rows"], "data")
    ]  # fmt: skip
    return table(["data", *columns.values(), "time of all answers / `predict`"], lines)


def pairs(records: Records) -> str:
    """Return what cosines and distances are worth with pairs of seen digits held out."""
    rows = records.script("pairs")["rows"]
    lines = [[row["variant"], f"{row['AUSUC']:.1f}", f"{row['H']:.1f}", f"{row['distances']:.0%}"]
             for row in rows]  # fmt: skip
    head = [f"mean of {rows[0]['n_pairs']} pairs", "AUSUC", "H", "chose distances"]
    return table(head, lines)


def paper_training(records: Records) -> str:
    """Return where L-BFGS and the paper's Adam end."""
    names = {"lbfgs": "L-BFGS, output layer solved", "adam": "Adam, learning rate 1e-4",
             "sampled": "mini-batches, S = 50, Sinkhorn"}  # fmt: skip
    lines = [
        [names[row["training"]], f"{row['steps']:,}", f"{row['seconds']:.0f} s, {row['device']}",
         f"{row['loss_with_decay']:.3f}", f"{row['loss']:.3f}",
         *(f"{row[name]:.1f}" for name in ("ZSL", "H", "AUSUC"))]
        for row in records.script("paper_training", "hgkt-network")["rows"]
    ]  # fmt: skip
    head = ["training", "steps", "time", "loss and decay", "loss", "ZSL", "H, γ = 0", "AUSUC"]
    return table(head, lines)


def grid(records: Records) -> str:
    """Return the best validation score for every value of every parameter."""
    found = records.script("grid", fixed=True)
    values: dict[str, list[str]] = {}
    for row in found["rows"]:
        values.setdefault(row["parameter"], []).append(f"{row['value']}: {row['AUSUC']:.1f}")
    lines = [[f"`{name}`", ", ".join(texts)] for name, texts in values.items()]
    head = "best validation AUSUC by value"
    note = f"{found['data']}, {found['n_settings']:,} settings, {found['n_folds']} folds."
    return f"{table(['parameter', head], lines, text=[head])}\n\n{note}"


def unequal_weights(records: Records) -> str:
    """Return how far POT's solvers end from the optimum where weights differ."""
    found = records.script("unequal_weights", method="")
    rows = found["rows"]
    regs = list(dict.fromkeys(row["reg"] for row in rows))
    lines = []
    for solver in dict.fromkeys(row["solver"] for row in rows):
        own = {row["reg"]: row for row in rows if row["solver"] == solver}
        lines.append([f"`{solver}`", *(_over_optimum(own[reg]) for reg in regs)])
    return table(["solver", *(f"reg {reg:g}" for reg in regs)], lines)


def _over_optimum(row: dict[str, Any]) -> str:
    lost = "" if abs(row["mass"] - 1.0) < 0.01 else f" (mass {row['mass']:.2f})"
    return f"{row['ratio']:.3f}{lost}"


def shapes(records: Records) -> str:
    """Return what the shapes that the page estimates for a new digit are worth."""
    rows = records.script("shapes")["rows"]
    digits = list(dict.fromkeys((row["digit"], row["n_images"]) for row in rows))
    lines = []
    for shape in dict.fromkeys(row["shapes"] for row in rows):
        own = {row["digit"]: row for row in rows if row["shapes"] == shape}
        cells = [f"{own[digit]['new']:.1f} ({own[digit]['seen']:.1f})" for digit, _ in digits]
        lines.append([shape, *cells])
    heads = [f"{digit} ({n} images)" for digit, n in digits]
    return table(["shapes of the new digit", *heads], lines)


def mutated_files(records: Records) -> str:
    """Return what reading damaged files did, kind by kind."""
    rows = records.script("mutated_files", method="")["rows"]
    whole = {key: sum(row[key] for row in rows) for key in rows[0] if type(rows[0][key]) is int}
    whole |= {"kind": "**all**", "longest_seconds": max(row["longest_seconds"] for row in rows),
              "most_bytes": max(row["most_bytes"] for row in rows)}  # fmt: skip
    lines = []
    for row in [*rows, whole]:
        well = [row[name] for name in _READ_WELL]
        most = f"{row['longest_seconds']:.2f} s", f"{row['most_bytes'] / 1e6:.0f} MB"
        counts = row["files"], *well, row["files"] - sum(well)
        lines.append([row["kind"], *map(str, counts), *most])
    return table(["kind", "files", *_READ_WELL, "failures", "longest", "most memory"], lines)


_READ_WELL = ("right answer", "one sentence", "another answer")


def class_checks(records: Records) -> str:
    """Return how expected and real accuracy of unseen classes rank, and which classes are named."""
    ranked = ("together", "alone", "ahead", "held out", "attribute distance")
    lines = []
    checked = _grouped(records.script("class_checks")["rows"], "data", "attributes", "selected")
    for (data, attributes, selected), rows in checked:
        told = {"att": "attributes", "sent": "sentences"}[attributes]
        cells = [_spread([row["rank_correlation"][name] for row in rows]) for name in ranked]
        shares = [
            _percents([row[name] for row in rows])
            for name in ("expected", "real", "within_range", "most_confused_named",
                         "most_robbed_named")
        ]  # fmt: skip
        lines.append([f"{data}, {told}{', selected' if selected else ''}",
                      str(rows[0]["n_unseen"]), *cells, *shares])  # fmt: skip
    header = ["unseen classes of", "number", "together", "alone", "ahead", "held out",
              "attribute distance", "expected", "real", "in range", "rival named",
              "loser named"]  # fmt: skip
    return table(header, lines)


def check_time(records: Records) -> str:
    """Return what a check costs beside an add."""
    time = records.script("class_checks")["time"]
    header = ["seen classes", "features", "attributes", "one check", "its CPU time",
              "95 % of checks", "the first check", "one add", "check / add"]  # fmt: skip
    milliseconds = [f"{time[name]:.1f} ms" for name in
                    ("check_ms", "check_cpu_ms", "check_p95_cpu_ms", "first_check_cpu_ms",
                     "add_cpu_ms")]  # fmt: skip
    sizes = [f"{time[name]:,}" for name in ("n_seen", "n_features", "n_attributes")]
    return table(header, [[*sizes, *milliseconds, f"{time['checks_per_add']:.1f}"]])


def _spread(numbers: list[float | None]) -> str:
    known = [number for number in numbers if number is not None]
    return spread(known, digits=2) if known else "–"


def _percents(numbers: list[float | None]) -> str:
    known = [100.0 * number for number in numbers if number is not None]
    return f"{sum(known) / len(known):.0f} %" if known else "–"


def sample(records: Records) -> str:
    """Return what is chosen from a sample of the rows, and what tests say of it."""
    lines = []
    for row in records.script("sample")["rows"]:
        metrics = ", ".join(f"{name} {shrinkage:g}" for name, shrinkage in row["metrics"])
        numbers = [f"{row['ausuc']:.1f}", f"{row['gamma']:.3f}"]
        tests = [f"{row['test'][name]:.1f}" for name in ("ausuc", "H")]
        share = "all" if row["n_kept"] == row["n_rows"] else f"{row['n_kept']:,}"
        lines.append([row["data"], share, metrics, *numbers, *tests])
    header = ["data", "rows kept", "metrics chosen", "validation", "γ", "test AUSUC", "test H"]
    return table(header, lines, text=["metrics chosen"])


def inbox(records: Records) -> str:
    """Return what becomes of the ten largest groups of rejected sentences."""
    rows = records.script("inbox", fixed=True)["results"]
    columns = {"n_rejected": "rejected", "recall": "of unseen", "purity": "purity",
               "n_classes": "intents", "by_name": "by name", "accuracy": "by name and items",
               "learned_before": "learned, before", "learned_after": "after"}  # fmt: skip
    lines = []
    for row in rows:
        pool = "and 1,000 of none" if row["with_none"] else "of intents"
        numbers = [
            str(row[name]) if name.startswith("n_") else f"{100 * row[name]:.1f} %"
            for name in columns
        ]
        lines.append([str(row["seed"]), pool, *numbers])
    return table(["seed", "test sentences", *columns.values()], lines, text=["test sentences"])


def inbox_settings(records: Records) -> str:
    """Return purity and number of items of the ten largest groups, by HDBSCAN's settings."""
    settings = records.script("inbox", fixed=True)["settings"]
    lines = [
        [*map(str, key), spread([100 * row["purity"] for row in rows]),
         spread([row["n_items"] for row in rows], 0), spread([row["order"] for row in rows], 2)]
        for key, rows in _grouped(settings, "n_directions", "min_samples", "selection")
    ]  # fmt: skip
    header = ["directions", "min_samples", "selection", "purity, %", "items", "order"]
    return table(header, lines, text=["selection"])


def suggest(records: Records) -> str:
    """Return the learning curves of what is labelled next, and the gains with their intervals."""
    lines = []
    for row in records.script("suggest", fixed=True)["rows"]:
        gains = row["gains"]
        for step, n_labels in enumerate(row["n_labels"]):
            curves = [f"{row['curves'][name][step]:.1f}" for name in row["curves"]]
            more = [
                f"{gains[other]['mean'][step]:+.1f} ± {gains[other]['interval'][step]:.1f}"
                if step else "–"
                for other in gains
            ]  # fmt: skip
            lines.append([row["data"], str(n_labels), *curves, *more])
    header = ["data", "labels", "random", "margin", "suggest", "over random", "over margin"]
    return table(header, lines)


def grocery(records: Records) -> str:
    """Return how photographs of a shop are named where some classes are only described."""
    lines = []
    for row in records.script("grocery", fixed=True)["rows"]:
        for group, levels in row["levels"].items():
            back_off = next(found for found in levels["back_off"] if found["at_least"] == 0.8)
            numbers = [
                row["accuracy"][group],
                levels["levels"][0]["accuracy"],
                back_off["coverage"],
                100 - back_off["risk"],
                row["sets"][group]["coverage"],
            ]
            lines.append([row["by"], group, *(f"{number:.1f}" for number in numbers)])
    header = ["16 classes known by", "photos of", "right", "right by group", "answered at 0.8",
              "of these right", "in a 90 % set"]  # fmt: skip
    return table(header, lines, text=["photos of"])


def grocery_unknown(records: Records) -> str:
    """Return how photographs of classes that a model has not are told from others."""
    lines = [
        [row["by"], *(f"{row['unknown'][name]:.1f}" for name in ("auroc", "false_alarms", "found"))]
        for row in records.script("grocery", fixed=True)["rows"]
    ]
    return table(["chosen with", "AUROC", "known ones rejected", "unknown ones rejected"], lines)


TABLES = {
    "grocery": grocery,
    "unknown groceries": grocery_unknown,
    "inbox": inbox,
    "settings of groups": inbox_settings,
    "suggest": suggest,
    "sample": sample,
    "mutated files": mutated_files,
    "class checks": class_checks,
    "time of a check": check_time,
    "growing": growing,
    "words on CUB": lambda records: words(records, "CUB"),
    "words on digits": lambda records: words(records, "digits"),
    "one space": one_space,
    "out of scope": out_of_scope,
    "ensemble": ensemble,
    "calibration": calibration,
    "favour": favour,
    "few classes": few_classes,
    "confidence": confidence,
    "unknown classes": unknown_classes,
    "sets beside MAPIE": beside_mapie,
    "paper training": paper_training,
    "pairs of digits": pairs,
    "grid": grid,
    "unequal weights": unequal_weights,
    "shapes of a new digit": shapes,
}
