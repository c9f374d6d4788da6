"""Tables of how close to their bounds things run, from records of `benchmarks/run.py`."""

from __future__ import annotations

from typing import Any

from page_tables.markdown import amount, crossed, fill, filled, table, with_place
from page_tables.records import Records

_SHARES = {
    "`predict` of the bound": "{share:percent}",
    "5 best of the bound": "{share_ranking:percent}",
}


def predict(records: Records) -> str:
    """Return predicting many rows beside the two products and discriminant analysis."""
    found = records.bench("predict")
    columns = {
        "classes": "{n_classes:,}",
        "two products": "{bound_cpu_seconds:amount} s",
        "`predict`": "{predict_cpu_seconds:amount} s",
        "the 5 best and their scores": "{ranking_cpu_seconds:amount} s",
        "discriminant analysis": "{peer_cpu_seconds:amount} s",
        **_SHARES,
    }
    said = fill(
        "{n_classes:,} classes of {n_features} features hold {table_gb:.1f} GB of embeddings. "
        "Adding them took {add_cpu_seconds:amount} CPU s and {add_peak_gb:.1f} GB at the peak; "
        "predicting {n_rows} rows took {predict_cpu_seconds:amount} CPU s, and the peak stayed at "
        "{predict_peak_gb:.1f} GB.",
        found["many_classes"],
    )
    return with_place(f"{filled(columns, found['batches'])}\n\n{said}", found)


def row(records: Records) -> str:
    """Return one row beside two products of a row."""
    found = records.bench("predict")
    one = found["row"]
    names = {
        "`predict`": "predict", "the 5 best and their scores": "ranking",
        "two products": "bound", "discriminant analysis": "peer",
    }  # fmt: skip
    titles = {"median": "in turn", "fastest": "fastest", "repeated": "again and again"}
    lines = [
        [what, *(f"{one[f'{name}_{kind}_ms']:.2f} ms" for kind in titles)]
        for what, name in names.items()
    ]
    header = [f"one row, {one['n_classes']} classes", *titles.values()]
    return with_place(table(header, lines), found)


def adding(records: Records) -> str:
    """Return what one more class costs, beside the product it needs and a new fit."""
    found = records.bench("add-class")
    columns = {
        "seen classes": "{n_seen:,}", "added classes": "{n_added:,}",
        "one more, CPU": "{median_cpu_ms:.2f} ms", "the product alone": "{bound_cpu_ms:.2f} ms",
    }  # fmt: skip
    said = (
        "Discriminant analysis, which has to be fitted again, takes "
        f"{amount(found['refit_peer_cpu_ms'] / 1000)} CPU s on "
        f"{found['sizes']['n_instances'][0]:,} instances."
    )
    return with_place(f"{filled(columns, closed_form_adds(found))}\n\n{said}", found)


def closed_form_adds(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the adds to the closed form of a record, with the fewest attributes."""
    n_attributes = found["sizes"]["n_attributes"][0]
    return [
        record
        for record in found["by_classes"]
        if (record["transfer"], record["n_attributes"]) == ("closed-form", n_attributes)
    ]


def network(records: Records) -> str:
    """Return training to the same loss in three ways."""
    found = records.bench("network")
    columns = {
        "way": "{way}", "CPU seconds per step": "{cpu_seconds_per_step:amount} s",
        "steps timed": "{n_steps}", "loss at the end": "{loss:.4f}",
    }  # fmt: skip
    reached = "reaches" if found["sampled_reached"] else "had not reached"
    said = fill(
        "{sizes[data][n_instances]:,} instances, {n_edges:,} edges. To the loss of "
        "{ways[0][n_steps]} steps on the quotient the full graph needs "
        "{ratio_full_graph:amount} times its CPU seconds, with losses that agree to "
        f"{{largest_difference:.0e}}; drawing neighbours {reached} that loss in "
        "{ratio_sampled:amount} times.",
        found,
    )
    return with_place(f"{filled(columns, found['ways'])}\n\n{said}", found)


def stages(records: Records) -> str:
    """Return where one fit of the closed form spends its time."""
    found = records.bench("fit")
    heads = [fill("{name}, {n_instances:,} × {n_features:,}", size) for size in found["sizes"]]
    lines = crossed(found["stages"], "stage", "data", "{seconds:amount} s ({share:percent})")
    return with_place(table(["stage", *heads], lines), found)


def suite(records: Records, name: str = "suite") -> str:
    """Return selection, fit and test on data of five shapes, beside the peers, and their sums."""
    found = records.bench(name)
    columns = {
        "selection": "select", "fit": "fit", "test": "test", "all of it": "total",
        "one fit alone": "fit_alone", "discriminant analysis": "lda", "CN-ZSL": "cn_zsl",
    }  # fmt: skip
    shape = "{name}, {n_train:,} rows, {n_seen} + {n_unseen} classes"
    times = {title: f"{{{what}_seconds:amount}} s" for title, what in columns.items()}
    rows = [{**row, "shape": fill(shape, row)} for row in found["shapes"]]
    totals = {
        f"{what}_seconds": sum(row[f"{what}_seconds"] for row in rows) for what in columns.values()
    }
    rows.append({"shape": f"all {len(rows)}", **totals})
    return with_place(filled({"shape": "{shape}", **times}, rows), found)


def predict_on_gpu(records: Records) -> str:
    """Return predicting on a GPU beside the two products there."""
    found = records.bench("predict-cuda")
    names = {
        "two products": "bound", "`predict`": "predict", "the 5 best and their scores": "ranking",
    }  # fmt: skip
    rows = [
        {**batch, **{name: 1000 * batch[f"{name}_seconds"] for name in names.values()}}
        for batch in found["batches"]
    ]
    times = {title: f"{{{name}:.1f}} ms" for title, name in names.items()}
    return with_place(filled({"classes": "{n_classes:,}", **times, **_SHARES}, rows), found)


def rows_to_gpu(records: Records) -> str:
    """Return how many rows a second are predicted, by where they come from."""
    found = records.bench("predict-cuda")
    places = {"on the GPU": "", "in page-locked memory": "locked_", "in ordinary memory": "host_"}
    lines = [
        [f"{batch['n_classes']:,}",
         *(f"{batch[f'{place}rows_per_second'] / 1e6:.2f}" for place in places.values()),
         f"{batch['n_rows'] / batch['copy_seconds'] / 1e6:.2f}"]
        for batch in found["batches"]
    ]  # fmt: skip
    header = ["classes", *(f"rows {place}" for place in places), "copying page-locked rows alone"]
    return table(header, lines)


TABLES = {
    "predict": predict, "one row": row, "adding": adding, "network speed": network,
    "fit stages": stages, "suite": suite, "predict on a GPU": predict_on_gpu,
    "rows to a GPU": rows_to_gpu, "suite on a GPU": lambda records: suite(records, "suite-cuda"),
}  # fmt: skip
