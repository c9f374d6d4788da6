"""Tables of how close to their bounds things run, from records of `benchmarks/run.py`."""

from __future__ import annotations

from typing import Any

from page_tables.markdown import amount, table, with_place
from page_tables.records import Records


def _gpu(found: dict[str, Any]) -> str:
    return f"one {found['device_name']} beside "


def predict(records: Records) -> str:
    """Return predicting many rows beside the two products and discriminant analysis."""
    found = records.bench("predict")
    columns = {
        "two products": "bound", "`predict`": "predict", "the 5 best and their scores": "ranking",
        "discriminant analysis": "peer",
    }  # fmt: skip
    lines = [
        [f"{batch['n_classes']:,}",
         *(f"{amount(batch[f'{name}_cpu_seconds'])} s" for name in columns.values()),
         f"{100 * batch['share']:.0f} %", f"{100 * batch['share_ranking']:.0f} %"]
        for batch in found["batches"]
    ]  # fmt: skip
    header = ["classes", *columns, "`predict` of the bound", "5 best of the bound"]
    many = found["many_classes"]
    said = (
        f"{many['n_classes']:,} classes of {many['n_features']} features hold "
        f"{many['table_gb']:.1f} GB of embeddings. Adding them took "
        f"{amount(many['add_cpu_seconds'])} CPU s and {many['add_peak_gb']:.1f} GB at the peak; "
        f"predicting {many['n_rows']} rows took {amount(many['predict_cpu_seconds'])} CPU s, and "
        f"the peak stayed at {many['predict_peak_gb']:.1f} GB."
    )
    return with_place(f"{table(header, lines)}\n\n{said}", found)


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
    n_attributes = found["sizes"]["n_attributes"][0]
    lines = [
        [f"{record['n_seen']:,}", f"{record['n_added']:,}", f"{record['median_cpu_ms']:.2f} ms",
         f"{record['bound_cpu_ms']:.2f} ms"]
        for record in found["by_classes"]
        if (record["transfer"], record["n_attributes"]) == ("closed-form", n_attributes)
    ]  # fmt: skip
    header = ["seen classes", "added classes", "one more, CPU", "the product alone"]
    said = (
        "Discriminant analysis, which has to be fitted again, takes "
        f"{amount(found['refit_peer_cpu_ms'] / 1000)} CPU s on "
        f"{found['sizes']['n_instances'][0]:,} instances."
    )
    return with_place(f"{table(header, lines)}\n\n{said}", found)


def network(records: Records) -> str:
    """Return training to the same loss in three ways."""
    found = records.bench("network")
    quotient = found["ways"][0]
    lines = [
        [way["way"], f"{amount(way['cpu_seconds_per_step'])} s", str(way["n_steps"]),
         f"{way['loss']:.4f}"]
        for way in found["ways"]
    ]  # fmt: skip
    reached = "reaches" if found["sampled_reached"] else "had not reached"
    size = found["sizes"]["data"]
    said = (
        f"{size['n_instances']:,} instances, {found['n_edges']:,} edges. To the loss of "
        f"{quotient['n_steps']} steps on the quotient the full graph needs "
        f"{amount(found['ratio_full_graph'])} times its CPU seconds, with losses that agree to "
        f"{found['largest_difference']:.0e}; drawing neighbours {reached} that loss in "
        f"{amount(found['ratio_sampled'])} times."
    )
    header = ["way", "CPU seconds per step", "steps timed", "loss at the end"]
    return with_place(f"{table(header, lines)}\n\n{said}", found)


def stages(records: Records) -> str:
    """Return where one fit of the closed form spends its time."""
    found = records.bench("fit")
    rows = {(row["data"], row["stage"]): row for row in found["stages"]}
    data = list(dict.fromkeys(name for name, _ in rows))
    names = list(dict.fromkeys(stage for _, stage in rows))
    lines = [[stage, *(_share(rows[name, stage]) for name in data)] for stage in names]
    sizes = {size["name"]: size for size in found["sizes"]}
    header = [f"{n}, {sizes[n]['n_instances']:,} × {sizes[n]['n_features']:,}" for n in data]
    return with_place(table(["stage", *header], lines), found)


def _share(row: dict[str, Any]) -> str:
    return f"{amount(row['seconds'])} s ({100 * row['share']:.0f} %)"


def suite(records: Records) -> str:
    """Return the protocol on data of five shapes on a CPU, beside the peers."""
    found = records.bench("suite")
    return with_place(shapes(found), found)


def shapes(found: dict[str, Any]) -> str:
    """Return selection, fit and test on data of each shape of a record, and their sums."""
    columns = {
        "selection": "select", "fit": "fit", "test": "test", "all of it": "total",
        "one fit alone": "fit_alone", "discriminant analysis": "lda", "CN-ZSL": "cn_zsl",
    }  # fmt: skip
    rows = found["shapes"]
    lines = [
        [f"{row['name']}, {row['n_train']:,} rows, {row['n_seen']} + {row['n_unseen']} classes",
         *(f"{amount(row[f'{name}_seconds'])} s" for name in columns.values())]
        for row in rows
    ]  # fmt: skip
    totals = [sum(row[f"{name}_seconds"] for row in rows) for name in columns.values()]
    lines.append([f"all {len(rows)}", *(f"{amount(total)} s" for total in totals)])
    return table(["shape", *columns], lines)


def predict_on_gpu(records: Records) -> str:
    """Return predicting on a GPU beside the two products there."""
    found = records.bench("predict-cuda")
    lines = [
        [f"{batch['n_classes']:,}",
         *(f"{1000 * batch[f'{name}_seconds']:.1f} ms" for name in ("bound", "predict", "ranking")),
         f"{100 * batch['share']:.0f} %", f"{100 * batch['share_ranking']:.0f} %"]
        for batch in found["batches"]
    ]  # fmt: skip
    header = [
        "classes", "two products", "`predict`", "the 5 best and their scores",
        "`predict` of the bound", "5 best of the bound",
    ]  # fmt: skip
    return with_place(table(header, lines), found, _gpu(found))


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


def suite_on_gpu(records: Records) -> str:
    """Return the protocol on data of five shapes on a GPU, beside the peers."""
    found = records.bench("suite-cuda")
    return with_place(shapes(found), found, _gpu(found))


TABLES = {
    "predict": predict, "one row": row, "adding": adding, "network speed": network,
    "fit stages": stages, "suite": suite, "predict on a GPU": predict_on_gpu,
    "rows to a GPU": rows_to_gpu, "suite on a GPU": suite_on_gpu,
}  # fmt: skip
