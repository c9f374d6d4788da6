"""`hgkt export`."""

from __future__ import annotations

import json

import numpy as np
import pytest

from hgkt import load_dataset, load_model
from hgkt.exceptions import DataError
from hgkt.export import load_onnx


def test_export_writes_what_onnxruntime_reads(hgkt, model_folder, tmp_path):
    arguments = ("--model", model_folder, "--onnx", "--out", tmp_path / "onnx")
    document = json.loads(hgkt("export", *arguments, "--json").stdout)
    names = {"embedder.onnx", "scorer.onnx", "embeddings.npy", "classes.json"}
    assert set(document["files"]) == names
    rows = load_dataset("digits").rows("test_seen")[0]
    exported = load_onnx(tmp_path / "onnx")
    assert len(exported.classes) == document["n_classes"] == 8
    expected = load_model(model_folder).score_classes(rows)
    np.testing.assert_allclose(exported.score_classes(rows), expected, atol=1e-5)
    assert "8 classes: classes.json" in hgkt("export", *arguments).stdout.replace("\n", " ")


def test_export_wants_a_format(hgkt, model_folder, tmp_path):
    with pytest.raises(DataError, match="--onnx"):
        hgkt("export", "--model", model_folder, "--out", tmp_path / "onnx")
