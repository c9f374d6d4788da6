"""`hgkt predict` over Parquet files into a folder: resumable, on processes and on Ray."""

from __future__ import annotations

import json
import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from hgkt.data import load_dataset
from hgkt.estimators import HGKTClassifier, load_model
from hgkt.exceptions import DataError


@pytest.fixture
def rows():
    return load_dataset("digits").rows("test_seen")


@pytest.fixture
def shards(tmp_path, rows):
    """Three files, one of them deeper and of two shards' row groups."""
    X, y = rows
    folder = tmp_path / "shards"
    for name, part in (
        ("a.parquet", slice(0, 40)), ("b.parquet", slice(40, 90)), ("c/d.parquet", slice(90, None))
    ):  # fmt: skip
        path = folder / name
        path.parent.mkdir(exist_ok=True, parents=True)
        frame = pd.DataFrame({"id": range(len(X[part])), "features": list(X[part])})
        frame.assign(**{"class": y[part]}).to_parquet(path, row_group_size=30)
    return folder


def read(out):
    return pd.concat([pd.read_parquet(path) for path in sorted(out.rglob("*.parquet"))])


def predict(hgkt, model, shards, out, *more):
    if "--engine" not in more:
        more = (*more, "--workers", "1")
    result = hgkt("predict", "--model", model, "--data", shards, "--out", out, "--json", *more)
    return json.loads(result.stdout)


def test_predict_writes_one_file_per_input_and_makes_none_twice(
    hgkt, model_folder, shards, rows, tmp_path
):
    X, y = rows
    model, out = load_model(model_folder), tmp_path / "predictions"
    document = predict(hgkt, model_folder, shards, out, "--top", "2")
    names = [path.relative_to(out).as_posix() for path in sorted(out.rglob("*.parquet"))]
    assert names == ["a.parquet", "b.parquet", "c/d.parquet"]
    found = read(out)
    assert found["label"].tolist() == model.predict(X).tolist()
    assert found["truth"].tolist() == y.tolist()
    assert found["id"].tolist()[:41] == [*range(40), 0]
    best = np.sort(model.score_classes(X), axis=1)[:, ::-1]
    np.testing.assert_allclose(found[["score", "score_2"]], best[:, :2], rtol=1e-5, atol=1e-6)
    right = y == model.predict(X)
    means = [100 * right[y == name].mean() for name in np.unique(y)]
    assert document["accuracy"] == pytest.approx(np.mean(means))
    assert (document["n_rows"], document["n_made"], document["n_there"]) == (len(X), 3, 0)

    # Killed between two files, or within one: only what is missing or torn is made.
    (out / "a.parquet").unlink()
    torn = (out / "b.parquet").read_bytes()
    (out / "b.parquet").write_bytes(torn[: len(torn) // 2])
    kept = (out / "c" / "d.parquet").stat().st_mtime_ns
    again = predict(hgkt, model_folder, shards, out, "--top", "2")
    assert (again["n_made"], again["n_there"], again["accuracy"]) == (2, 1, document["accuracy"])
    assert (out / "c" / "d.parquet").stat().st_mtime_ns == kept
    pd.testing.assert_frame_equal(read(out), found)


def test_predict_makes_again_what_changed(hgkt, model_folder, shards, tmp_path):
    out = tmp_path / "predictions"
    assert predict(hgkt, model_folder, shards, out)["n_made"] == 3
    assert predict(hgkt, model_folder, shards, out)["n_made"] == 0
    pd.read_parquet(shards / "a.parquet").iloc[:7].to_parquet(shards / "a.parquet")
    assert predict(hgkt, model_folder, shards, out)["n_made"] == 1
    assert predict(hgkt, model_folder, shards, out, "--among", "one,four")["n_made"] == 3
    load_model(model_folder).set_params(calibration=0.5).save(model_folder, data="digits")
    assert predict(hgkt, model_folder, shards, out, "--among", "one,four")["n_made"] == 3
    (shards / "b.parquet").unlink()
    assert predict(hgkt, model_folder, shards, out, "--among", "one,four")["left_alone"] == [
        "b.parquet"
    ]


def test_predict_divides_a_large_file_at_its_row_groups(hgkt, model_folder, shards, tmp_path):
    from hgkt.evaluation import predict_shards

    out = tmp_path / "predictions"
    report = predict_shards(model_folder, shards / "a.parquet", out, shard_rows=30, n_workers=1)
    assert sorted(path.name for path in out.iterdir()) == ["a-00000.parquet", "a-00001.parquet"]
    assert report.n_rows == len(read(out)) == 40


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", "ray"])
def test_predict_writes_the_same_wherever_it_runs(
    hgkt, model_folder, shards, tmp_path, ray_cluster, engine
):
    predict(hgkt, model_folder, shards, tmp_path / "here")
    more = ("--engine", engine, "--workers", "2")
    document = predict(hgkt, model_folder, shards, tmp_path / "there", *more)
    assert document["n_made"] == 3
    pd.testing.assert_frame_equal(read(tmp_path / "here"), read(tmp_path / "there"))
    assert ray_cluster.is_initialized()


def test_predict_in_bulk_says_how_sure_it_is(hgkt, shards, tmp_path):
    data = load_dataset("digits")
    X, y = data.rows("train")
    model = HGKTClassifier(device="cpu").fit(X, y, data.attributes_of(data.seen_classes))
    out = tmp_path / "predictions"
    predict(
        hgkt,
        model.save(tmp_path / "sure", data="digits"),
        shards,
        out,
        "--reject",
        "0.2",
        "--coverage",
        "0.9",
    )
    found = read(out)
    assert {"label", "score", "probability", "novelty", "set", "truth"} <= set(found.columns)
    assert found["probability"].between(0, 1).all()
    assert ((found["label"] == "<unknown>") == (found["novelty"] > 0.8)).all()


def test_predict_in_bulk_refuses_in_a_sentence(hgkt, model_folder, shards, tmp_path):
    out = tmp_path / "predictions"
    with pytest.raises(DataError, match="--engine and --workers are for Parquet files"):
        hgkt("predict", "--model", model_folder, "--data", shards, "--engine", "local")
    narrow = pd.DataFrame({"features": [[1.0, 2.0]]})
    narrow.to_parquet(shards / "0.parquet")
    with pytest.raises(DataError, match=r"0\.parquet row group 0 has 2 features a row; the model"):
        predict(hgkt, model_folder, shards, out)
    parquet.write_table(pa.table({"features": [[np.nan] * 64]}), shards / "0.parquet")
    with pytest.raises(DataError, match=r"features of 0\.parquet row group 0 contain NaN in row 0"):
        predict(hgkt, model_folder, shards, out)
    assert not (out / "0.parquet").exists()
    data = (shards / "a.parquet").read_bytes()
    (shards / "0.parquet").write_bytes(data[: len(data) // 2])
    with pytest.raises(DataError, match=r"0\.parquet cannot be read as a shard of Parquet"):
        predict(hgkt, model_folder, shards, out)
    os.remove(shards / "0.parquet")
    clash = pd.read_parquet(shards / "a.parquet").rename(columns={"id": "score"})
    clash.to_parquet(shards / "a.parquet")
    with pytest.raises(DataError, match="has a column 'score', which predictions have too"):
        predict(hgkt, model_folder, shards, out)
