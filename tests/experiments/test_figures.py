"""Figures of the experiments: tasks against brute force, drawings that are not blank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hgkt.data import load_dataset
from hgkt.estimators import HGKTNetworkClassifier
from hgkt.evaluation import evaluate
from hgkt.exceptions import DataError
from hgkt.experiments.blocks import (
    Block,
    Experiment,
    FigureBlock,
    Outcome,
    TableBlock,
    TextBlock,
    Value,
)
from hgkt.experiments.plan import EXPERIMENTS, Cell, CellResult, Context, DataSpec, load_task
from hgkt.experiments.representatives import (
    draw_graph,
    edges_of,
    layout,
    load_image,
)

REPRESENTATIVES = EXPERIMENTS.load("figure-representatives")

DIGITS = DataSpec("digits", "digits", fingerprint="digits")
QUICK = Context(data=(DIGITS,), n_seeds=1, quick=True)
FIGURES = ["figure-iterations", "figure-tsne", "figure-representatives", "figure-graph"]


def cells_of(experiment: Experiment, context: Context) -> list[Cell]:
    return [cell for cells in experiment.plan(context).values() for cell in cells]


def rendered(
    experiment: Experiment, context: Context, results: Mapping[str, CellResult]
) -> Sequence[Block]:
    return experiment.render(Outcome(context, experiment.plan(context), results))


@pytest.fixture(scope="module")
def digits() -> Any:
    return load_dataset("digits")


@pytest.fixture(scope="module")
def results(digits: Any) -> dict[str, CellResult]:
    """Every cell of the four figures, run for real."""
    found: dict[str, CellResult] = {}
    for name in FIGURES:
        for cell in cells_of(EXPERIMENTS.load(name), QUICK):
            if cell.key not in found:
                small = cell
                if cell.method == "hgkt-network":
                    small = replace(cell, params={**cell.params, "n_hidden": 64})
                values, arrays = load_task(cell.task)(small, digits)
                found[cell.key] = CellResult(cell, values, arrays)
    return found


def pixels(figure: FigureBlock) -> np.ndarray[Any, Any]:
    figure.figure.canvas.draw()
    return np.asarray(figure.figure.canvas.buffer_rgba())[..., :3].astype(float)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", FIGURES)
def test_figures_are_drawn_with_their_numbers(name: str, results: dict[str, CellResult]) -> None:
    blocks = rendered(EXPERIMENTS.load(name), QUICK, results)
    figures = [block for block in blocks if isinstance(block, FigureBlock)]
    assert len(figures) == 1
    assert len(figures[0].data) > 0
    assert figures[0].keys
    assert figures[0].note
    image = pixels(figures[0])
    assert image.std() > 8
    assert len(np.unique(image.reshape(-1, 3), axis=0)) > 20


@pytest.mark.parametrize("name", FIGURES)
def test_figures_cope_without_results_and_with_failures(name: str) -> None:
    experiment = EXPERIMENTS.load(name)
    failed = {c.key: CellResult(c, error="it broke.") for c in cells_of(experiment, QUICK)}
    for found in ({}, failed):
        blocks = rendered(experiment, QUICK, found)
        texts = [block.text for block in blocks if isinstance(block, TextBlock)]
        assert any(("it broke." if found else "nothing has run") in text for text in texts)
        assert not any(isinstance(block, FigureBlock) for block in blocks)


# ---------------------------------------------------------------- iterations
def test_iterations_points_equal_evaluations(digits: Any) -> None:
    params = {"n_hidden": 32, "learning_rate": 1e-2}
    cell = Cell(
        "iterations", DIGITS, "hgkt-network", "", params, seed=1, options={"steps": [40, 10, 80]}
    )
    values, arrays = load_task("iterations")(cell, digits)
    assert arrays["steps"].tolist() == [10, 40, 80]
    for row, step in ((0, 10), (2, 80)):
        model = HGKTNetworkClassifier(**params, n_steps=step, random_state=1, device="cpu")
        metrics = evaluate(model, digits, calibrate=False).metrics
        np.testing.assert_allclose(arrays["test"][row], [metrics.ts, metrics.tr, metrics.H])
    assert values["stop"] == arrays["steps"][arrays["validation"][:, 2].argmax()]
    stop = arrays["steps"].tolist().index(values["stop"])
    assert values["metrics"]["H"] == arrays["test"][stop, 2]


def test_iterations_without_steps_are_refused(digits: Any) -> None:
    with pytest.raises(DataError, match="needs the option steps"):
        load_task("iterations")(Cell("iterations", DIGITS, "hgkt-network"), digits)


# ---------------------------------------------------------------- embeddings
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("hgkt", {}),
        ("hgkt-network", {"n_steps": 60, "n_hidden": 64, "learning_rate": 1e-2}),
        ("dem", {"n_steps": 30, "n_hidden": 64, "metric": "cosine"}),
    ],
)
def test_embedding_share_in_own_cluster_against_brute_force(
    method: str, params: dict[str, Any]
) -> None:
    from hgkt.data.digits import load_digits
    from hgkt.experiments.plan import build_estimator

    data = load_digits(unseen=("two", "six", "nine", "one"))
    cell = Cell("embedding", DIGITS, method, "", params, options={"n_instances": 12})
    values, arrays = load_task("embedding")(cell, data)

    X, y = data.rows("train")
    model: Any = build_estimator(cell, data)
    model.fit(X, y, class_attributes=data.attributes_of(data.seen_classes))
    model.add_classes(data.attributes_of(data.unseen_classes))
    X_test, y_test = data.rows("test_unseen")
    if method == "hgkt":
        X_test = model._map_features(X_test)
    names = data.names(data.unseen_classes)
    nearest = []
    for name in names:
        z = model.class_embeddings_[model.classes_.tolist().index(name)]
        rows = X_test.astype(np.float64)
        if method != "hgkt-network":
            z = z / np.linalg.norm(z)
            rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        gaps = [np.linalg.norm(z - rows[y_test == other].mean(axis=0)) for other in names]
        nearest.append(int(np.argmin(gaps)))
    assert arrays["nearest"].tolist() == nearest
    share = 100 * np.mean([code == own for own, code in enumerate(nearest)])
    assert values["own_space"] == share
    assert values["classes"] == names
    assert arrays["points"].shape == (48, 2)
    assert np.bincount(arrays["labels"]).tolist() == [12] * 4


def test_embedding_is_refused_for_methods_without_embeddings(digits: Any) -> None:
    cell = Cell("embedding", DIGITS, "eszsl")
    with pytest.raises(DataError, match="embeds no classes"):
        load_task("embedding")(cell, digits)


def test_tsne_picture_share_follows_from_the_points(results: dict[str, CellResult]) -> None:
    cells = cells_of(EXPERIMENTS.load("figure-tsne"), QUICK)
    for result in (results[cell.key] for cell in cells if cell.task == "embedding"):
        points, labels, dots = (result.arrays[name] for name in ("points", "labels", "dots"))
        own = 0
        for code, dot in enumerate(dots):
            centers = [points[labels == other].mean(axis=0) for other in range(len(dots))]
            own += int(np.argmin([((dot - center) ** 2).sum() for center in centers]) == code)
        assert result.values["own_picture"] == 100 * own / len(dots)


def test_tsne_takes_what_the_main_table_selected() -> None:
    context = Context(data=(DIGITS,), methods=("hgkt", "hgkt-network"), n_seeds=2)
    cells = cells_of(EXPERIMENTS.load("figure-tsne"), context)
    main = {cell.key for cell in cells_of(EXPERIMENTS.load("table-gzsl"), context)}
    embeddings = [cell for cell in cells if cell.task == "embedding"]
    needed = {key for cell in embeddings for key in cell.needs}
    assert [cell.method for cell in embeddings] == ["hgkt-network", "hgkt", "dem"]
    assert all("select" not in cell.options and not cell.params for cell in embeddings)
    # They are part of its own plan, so that it can run alone; two of them are the main table's.
    assert needed == {cell.key for cell in cells if cell.task == "evaluate"}
    assert len(needed & main) == 2


# ---------------------------------------------------------------- representatives and graph
def cell_of(way: str) -> Cell:
    return REPRESENTATIVES.plan(QUICK)["digits", way][0]


def test_representatives_are_the_rows_of_a_fit(digits: Any, results: dict[str, CellResult]) -> None:
    X, y = digits.rows("train")
    for way in ("wasserstein", "euclidean"):
        result = results[cell_of(way).key]
        model = HGKTNetworkClassifier(representative=way, n_steps=1, device="cpu")
        model.fit(X, y, class_attributes=digits.attributes_of(digits.seen_classes))
        rows = digits.train[model.representatives_]
        np.testing.assert_array_equal(result.arrays["rows"], rows)
        np.testing.assert_array_equal(result.arrays["images"], digits.features[rows])
        assert result.values["classes"] == model.seen_classes_.tolist()


def test_representatives_of_files_are_listed_or_shown(
    tmp_path: Path, results: dict[str, CellResult]
) -> None:
    from PIL import Image

    with_files = {}
    for way in ("wasserstein", "euclidean", "random"):
        key = cell_of(way).key
        values = {k: v for k, v in results[key].values.items() if k != "pixels"}
        files = [f"/home/author/images/{name}/{way}.png" for name in values["classes"]]
        with_files[key] = replace(results[key], values={**values, "files": files})
    (table,) = rendered(REPRESENTATIVES, QUICK, with_files)
    assert isinstance(table, TableBlock)
    first = table.rows[0][1]
    assert isinstance(first, Value)
    assert first.words.endswith("wasserstein.png")

    folder = tmp_path / "images" / values["classes"][0]
    folder.mkdir(parents=True)
    Image.new("RGB", (300, 200), (200, 30, 30)).save(folder / "wasserstein.png")
    shown = rendered(REPRESENTATIVES, replace(QUICK, image_root=tmp_path), with_files)
    assert [type(block) for block in shown] == [TableBlock]  # the other ways have no file at all
    for way in ("euclidean", "random"):
        Image.new("RGB", (300, 200), (30, 30, 200)).save(folder / f"{way}.png")
    figure, _ = rendered(REPRESENTATIVES, replace(QUICK, image_root=tmp_path), with_files)
    assert isinstance(figure, FigureBlock)
    flat = pixels(figure).reshape(-1, 3)
    assert (np.abs(flat - [200, 30, 30]).max(axis=1) < 12).any()


def test_load_image_shrinks_and_copes(tmp_path: Path) -> None:
    from PIL import Image

    Image.new("L", (400, 100), 77).save(tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes(b"no image")
    assert load_image(tmp_path, "/x/y/a.png").shape == (40, 160, 3)
    assert load_image(tmp_path, "b.png") is None
    assert load_image(tmp_path, "../../etc/nothing.png") is None


def test_graph_edges_are_those_of_the_model(digits: Any, results: dict[str, CellResult]) -> None:
    result = results[cell_of("wasserstein").key]
    X, y = digits.rows("train")
    model = HGKTNetworkClassifier(n_steps=1, device="cpu")
    model.fit(X, y, class_attributes=digits.attributes_of(digits.seen_classes))
    seen = list(zip(model.graph_.neighbors.rows, model.graph_.neighbors.indices, strict=True))
    new = model._transfer.neighbors(
        np.stack(list(digits.attributes_of(digits.unseen_classes).values()))
    )
    unseen = [(len(model.seen_classes_) + u, c) for u, row in enumerate(new) for c in row]
    assert edges_of(result) == [(int(a), int(b)) for a, b in [*seen, *unseen]]


def test_graph_layout_is_the_same_every_time() -> None:
    positions = np.arange(8.0).reshape(4, 2)
    edges = [(0, 1), (1, 2), (2, 3)]
    springs = layout(4, edges, positions)
    assert springs.shape == (4, 2)
    np.testing.assert_array_equal(springs, layout(4, edges, positions))


def test_graph_of_many_classes_names_a_few(results: dict[str, CellResult]) -> None:
    rng = np.random.default_rng(0)
    n_seen, n_unseen = 150, 50
    arrays = {
        "neighbors": np.stack([(c + rng.permutation(n_seen - 1)[:2] + 1) % n_seen
                               for c in range(n_seen)]),
        "unseen_neighbors": rng.integers(0, n_seen, (n_unseen, 2)),
        "positions": rng.normal(size=(n_seen + n_unseen, 2)),
    }  # fmt: skip
    values = {"classes": [f"{c:03d}.Seen_{c}" for c in range(n_seen)], "unseen": ["u"] * n_unseen}
    block = draw_graph(DIGITS, CellResult(cell_of("wasserstein"), values, arrays), ())
    texts = [text.get_text() for text in block.figure.axes[0].texts]
    assert 5 <= len(texts) <= 15
    assert all(text.startswith("Seen ") for text in texts)
    assert len(block.data) == 400
    assert pixels(block).std() > 8
