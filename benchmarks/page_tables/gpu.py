"""Tables of predicting and selecting on a GPU, from records of `hgkt bench NAME --device cuda`."""

from __future__ import annotations

from typing import Any

from page_tables.markdown import measured_on, table
from page_tables.performance import shapes
from page_tables.records import Records


def _below(lines: str, found: dict[str, Any]) -> str:
    where = measured_on(found["environment"])
    return f"{lines}\n\nMeasured on one {found['device_name']} beside {where}."


def predict(records: Records) -> str:
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
    return _below(table(header, lines), found)


def rows(records: Records) -> str:
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


def suite(records: Records) -> str:
    """Return the protocol on data of five shapes on a GPU, beside the peers."""
    found = records.bench("suite-cuda")
    return _below(shapes(found), found)


TABLES = {"predict on a GPU": predict, "rows to a GPU": rows, "suite on a GPU": suite}
