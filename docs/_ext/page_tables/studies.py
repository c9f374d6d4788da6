"""Tables from the records of the scripts in ``benchmarks``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from page_tables.markdown import METRICS, crossed, filled, spread, table
from page_tables.records import Records

_CALIBRATIONS = ("model", "matched", "graded", "kept", "none")
_IMAGES_ONLY = "images only"
_LONGEST_SENTENCE = 40


def _rows(
    name: str, columns: Mapping[str, str], text: Sequence[str] = (), fixed: bool = False
) -> Callable[[Records], str]:
    """Return what makes a table with a line for each row of a record."""
    return lambda records: filled(columns, records.script(name, fixed=fixed)["rows"], text)


def _grouped(rows: Sequence[dict[str, Any]], *names: str) -> Any:
    """Return pairs of the values under some names and the rows that have them, as a frame.

    The columns of what a row nests are called as in ``sets.seen.set_size``.
    """
    return pd.json_normalize(rows).groupby(list(names), sort=False)


def growing(records: Records) -> str:
    """Return what images of added classes are worth, data set by data set."""
    return "\n\n".join(_grown(result) for result in records.script("growing")["results"])


def _grown(result: dict[str, Any]) -> str:
    columns = {title: ("model", name) for title, name in METRICS.items() if title != "H"}
    columns |= {f"H, {name}": (name, "H") for name in _CALIBRATIONS}
    lines = []
    for (n, method), own in pd.DataFrame(result["rows"]).groupby(["n_images", "method"]):
        readings = dict(list(own.groupby("calibration")))
        # The γ of the closed form, on its scale of scores, says nothing about class means; their
        # accuracies are at the matched one.
        if method == _IMAGES_ONLY:
            readings = {name: readings[name] for name in ("matched", "none")}
        cells = []
        for name, metric in columns.values():
            found = readings.get(name, None if metric == "H" else readings["matched"])
            cells.append("–" if found is None else spread(found[metric]))
        lines.append([str(n), "attributes" if n == 0 else method, *cells])
    n_draws = len({row["seed"] for row in result["rows"]})
    header = ["images", "classes known by", *columns]
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


def words(records: Records, data: str) -> str:
    """Return what classes are told by and how far that carries."""
    rows = records.script("words", fixed=True)["rows"][data]
    for row in rows:
        if 0 < len(row["sentence"] or "") <= _LONGEST_SENTENCE:
            row["label"] += f": “{row['sentence']}”"
    columns = {"classes are told by": "{label}", "validation": "{validation[score]:.1f}"}
    metrics = {title: f"{{metrics[{name}]:.1f}}" for title, name in METRICS.items()}
    return filled(columns | metrics, rows)


def one_space(records: Records) -> str:
    """Return what methods reach whose rows and class vectors share one space."""
    lines = [
        [f"`{method}`", *(spread(own[name]) for name in METRICS.values()),
         f"{own['seconds'].mean():.0f}"]
        for (method,), own in _grouped(records.script("one_space")["rows"], "method")
    ]  # fmt: skip
    return table(["method", *METRICS, "seconds"], lines)


def out_of_scope(records: Records) -> str:
    """Return what becomes of sentences that fit no class, beside those that do."""
    columns = {
        "auroc.seen": "AUROC, seen", "auroc.described": "AUROC, described",
        "rejected.seen": "rejected: seen", "rejected.described": "described",
        "rejected.out_of_scope": "no intent",
    }  # fmt: skip
    columns = {f"out_of_scope.{path}": title for path, title in columns.items()}
    columns |= {"sets.seen.set_coverage": "in a 90 % set: seen",
                "sets.unseen.set_coverage": "described"}  # fmt: skip
    rows = [row for row in records.script("one_space")["rows"] if row["out_of_scope"]]
    lines = [
        [f"`{method}`", *(spread(own[path]) for path in columns)]
        for (method,), own in _grouped(rows, "method")
    ]
    return table(["method", *columns.values()], lines)


def ensemble(records: Records) -> str:
    """Return what the parts of the ensemble are worth on classes that no choice has seen."""
    rows = records.script("ensemble")["rows"]
    titles = dict.fromkeys(row["data"].replace(":sent", ", sentences") for row in rows)
    lines = crossed(rows, "variant", "data", "{AUSUC:.2f} / {H:.1f}")
    return table(["AUSUC / H", *titles], lines)


def confidence(records: Records) -> str:
    """Return calibration error, log loss and sets, for seen and unseen rows apart."""
    columns = {"ece": "calibration error", "ece_before": "before", "log_loss": "log loss",
               "log_loss_before": "before", "set_coverage": "in a 90 % set",
               "set_size": "size of the set"}  # fmt: skip
    lines = [
        [data, group, *(spread(own[f"{group}.{name}"], 2 if "log" in name else 1)
                        for name in columns)]
        for (data,), own in _grouped(records.script("confidence")["rows"], "data")
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
    rows = records.script("confidence")["rows"]
    lines = [
        [f"{data} ({n})", *(spread(own[f"unknown.{name}"]) for name in columns)]
        for (data, n), own in _grouped(rows, "data", "unknown.n_unknown")
    ]
    return table(["data (never added)", *columns.values()], lines)


def beside_mapie(records: Records) -> str:
    """Return 90 % sets among seen classes beside MAPIE's, and what all answers cost."""
    columns = {"coverage_mapie": "MAPIE covers", "size_mapie": "size",
               "coverage_own": "hgkt covers", "size_own": "size"}  # fmt: skip
    lines = [
        [data, *(spread(own[f"mapie.{name}"]) for name in columns),
         f"{own['cost.ratio'].mean():.2f}"]
        for (data,), own in _grouped(records.script("confidence")["rows"], "data")
    ]  # fmt: skip
    return table(["data", *columns.values(), "time of all answers / `predict`"], lines)


def paper_training(records: Records) -> str:
    """Return where L-BFGS and the paper's Adam end."""
    names = {"lbfgs": "L-BFGS, output layer solved", "adam": "Adam, learning rate 1e-4",
             "sampled": "mini-batches, S = 50, Sinkhorn"}  # fmt: skip
    columns = {
        "training": "{name}", "steps": "{steps:,}", "time": "{seconds:.0f} s, {device}",
        "loss and decay": "{loss_with_decay:.3f}", "loss": "{loss:.3f}",
        "ZSL": "{ZSL:.1f}", "H, γ = 0": "{H:.1f}", "AUSUC": "{AUSUC:.1f}",
    }  # fmt: skip
    rows = records.script("paper_training", "hgkt-network")["rows"]
    return filled(columns, [{**row, "name": names[row["training"]]} for row in rows])


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
    rows = records.script("unequal_weights", method="")["rows"]
    for row in rows:
        row["name"] = f"`{row['solver']}`"
        row["lost"] = "" if abs(row["mass"] - 1.0) < 0.01 else f" (mass {row['mass']:.2f})"
    regs = dict.fromkeys(f"reg {row['reg']:g}" for row in rows)
    return table(["solver", *regs], crossed(rows, "name", "reg", "{ratio:.3f}{lost}"))


def shapes(records: Records) -> str:
    """Return what the shapes that the page estimates for a new digit are worth."""
    rows = records.script("shapes")["rows"]
    digits = dict.fromkeys(f"{row['digit']} ({row['n_images']} images)" for row in rows)
    lines = crossed(rows, "shapes", "digit", "{new:.1f} ({seen:.1f})")
    return table(["shapes of the new digit", *digits], lines)


def mutated_files(records: Records) -> str:
    """Return what reading damaged files did, kind by kind."""
    rows = records.script("mutated_files", method="")["rows"]
    frame = pd.DataFrame(rows)
    whole = {**frame.sum(), "kind": "**all**", **frame[["longest_seconds", "most_bytes"]].max()}
    well = ("right answer", "one sentence", "another answer")
    rows = [
        {**row, "failures": row["files"] - sum(row[name] for name in well),
         "most_mb": row["most_bytes"] / 1e6}
        for row in [*rows, whole]
    ]  # fmt: skip
    columns = {
        "kind": "{kind}", "files": "{files}", **{name: f"{{{name}}}" for name in well},
        "failures": "{failures}", "longest": "{longest_seconds:.2f} s",
        "most memory": "{most_mb:.0f} MB",
    }  # fmt: skip
    return filled(columns, rows)


def class_checks(records: Records) -> str:
    """Return how expected and real accuracy of unseen classes rank, and which classes are named."""
    ranked = ("together", "alone", "ahead", "held out", "attribute distance")
    shares = {"expected": "expected", "real": "real", "within_range": "in range",
              "most_confused_named": "rival named", "most_robbed_named": "loser named"}  # fmt: skip
    told = {"att": "attributes", "sent": "sentences"}
    lines = []
    checked = _grouped(
        records.script("class_checks")["rows"], "data", "attributes", "selected", "n_unseen"
    )
    for (data, attributes, selected, n_unseen), own in checked:
        ranks = [own[f"rank_correlation.{name}"].dropna() for name in ranked]
        means = [own[name].astype(float).mean() for name in shares]
        lines.append([
            f"{data}, {told[attributes]}{', selected' if selected else ''}", str(n_unseen),
            *(spread(known, digits=2) if len(known) else "–" for known in ranks),
            *("–" if pd.isna(share) else f"{100 * share:.0f} %" for share in means),
        ])  # fmt: skip
    return table(["unseen classes of", "number", *ranked, *shares.values()], lines)


def check_time(records: Records) -> str:
    """Return what a check costs beside an add."""
    columns = {
        "seen classes": "{n_seen:,}", "features": "{n_features:,}",
        "attributes": "{n_attributes:,}", "one check": "{check_ms:.1f} ms",
        "its CPU time": "{check_cpu_ms:.1f} ms", "95 % of checks": "{check_p95_cpu_ms:.1f} ms",
        "the first check": "{first_check_cpu_ms:.1f} ms", "one add": "{add_cpu_ms:.1f} ms",
        "check / add": "{checks_per_add:.1f}",
    }  # fmt: skip
    return filled(columns, [records.script("class_checks")["time"]])


def sample(records: Records) -> str:
    """Return what is chosen from a sample of the rows, and what tests say of it."""
    rows = records.script("sample")["rows"]
    for row in rows:
        row["chosen"] = ", ".join(f"{name} {shrinkage:g}" for name, shrinkage in row["metrics"])
        row["share"] = "all" if row["n_kept"] == row["n_rows"] else f"{row['n_kept']:,}"
    columns = {
        "data": "{data}", "rows kept": "{share}", "metrics chosen": "{chosen}",
        "validation": "{ausuc:.1f}", "γ": "{gamma:.3f}",
        "test AUSUC": "{test[ausuc]:.1f}", "test H": "{test[H]:.1f}",
    }  # fmt: skip
    return filled(columns, rows, text=["metrics chosen"])


def inbox(records: Records) -> str:
    """Return what becomes of the ten largest groups of rejected sentences."""
    shares = {"by_name": "by name", "accuracy": "by name and items",
              "learned_before": "learned, before", "learned_after": "after"}  # fmt: skip
    columns = {
        "seed": "{seed}", "test sentences": "{pool}", "rejected": "{n_rejected}",
        "of unseen": "{recall:.1f} %", "purity": "{purity:.1f} %", "intents": "{n_classes}",
        **{title: f"{{{name}:.1f}} %" for name, title in shares.items()},
    }  # fmt: skip
    rows = records.script("inbox", fixed=True)["results"]
    for row in rows:
        row["pool"] = "and 1,000 of none" if row["with_none"] else "of intents"
        row.update({name: 100 * row[name] for name in ("recall", "purity", *shares)})
    return filled(columns, rows, text=["test sentences"])


def inbox_settings(records: Records) -> str:
    """Return purity and number of items of the ten largest groups, by HDBSCAN's settings."""
    settings = records.script("inbox", fixed=True)["settings"]
    lines = [
        [*map(str, key), spread(100 * own["purity"]), spread(own["n_items"], 0),
         spread(own["order"], 2)]
        for key, own in _grouped(settings, "n_directions", "min_samples", "selection")
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


TABLES: dict[str, Callable[[Records], str]] = {
    "grocery": grocery,
    "unknown groceries": _rows("grocery", {
        "chosen with": "{by}", "AUROC": "{unknown[auroc]:.1f}",
        "known ones rejected": "{unknown[false_alarms]:.1f}",
        "unknown ones rejected": "{unknown[found]:.1f}",
    }, fixed=True),
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
    # H by the number of added classes and by how γ is set.
    "calibration": _rows("calibration", {
        "data": "{data}", "seen": "{n_seen}", "added": "{n_added}", "H, γ = 0": "{H[none]:.1f}",
        "H, one γ": "{H[one number]:.1f}", "H, the law": "{H[law]:.1f}",
        "H, best γ (oracle)": "{H[best]:.1f}",
    }),
    # What added classes cost on test rows and what was expected, by what γ favours.
    "favour": _rows("favour", {
        "data": "{data}", "favoured": "`{favour}`", "learned": "{n_seen}", "added": "{n_added}",
        "learned classes": "{before:.1f} → {learned:.1f}", "added ones": "{added:.1f}",
        "all classes": "{mean:.1f}",
        "learned, expected": "{expected_before:.1f} → {expected_learned:.1f}",
        "added, expected": "{expected_added:.1f}",
    }, text=["favoured"]),
    # H, and how many seen classes are never answered, by the number of seen classes.
    "few classes": _rows("few_classes", {
        "data": "{data}", "seen": "{n_seen}", "added": "{n_added}", "draws": "{n_draws}",
        "H, cosines": "{cosines[H]:.1f}",
        "distances": "{distances[gain]:+.1f} ± {distances[error]:.1f}",
        "default": "{default[gain]:+.1f} ± {default[error]:.1f}",
        "silent, cosines": "{cosines[silent]:.0f} %",
        "silent, distances": "{distances[silent]:.0f} %",
        "silent, default": "{default[silent]:.0f} %",
    }),
    "confidence": confidence,
    "unknown classes": unknown_classes,
    "sets beside MAPIE": beside_mapie,
    "paper training": paper_training,
    "grid": grid,
    "unequal weights": unequal_weights,
    "shapes of a new digit": shapes,
}  # fmt: skip
