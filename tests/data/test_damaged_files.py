"""Files that are damaged, or meant to harm: one sentence each, in little time and memory."""

from __future__ import annotations

import io
import os
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.io import savemat

from hgkt.cli._inputs import read_vector
from hgkt.data import load_dataset, read_attribute_file, read_features
from hgkt.data.arrays import read_npy, read_npz
from hgkt.data.matlab import MatFile, read_mat
from hgkt.data.tables import read_frame, write_classes
from hgkt.exceptions import DataError

MIB = 2**20


@contextmanager
def little_memory(limit: int = 32 * MIB) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < limit
    finally:
        tracemalloc.stop()


def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(DataError) as refused, little_memory():
        call()
    assert "\n" not in str(refused.value)
    return str(refused.value)


# ---------------------------------------------------------------------- .npy and .npz
def npy(shape: tuple[int, ...], data: bytes = b"", descr: str = "<f4") -> bytes:
    buffer = io.BytesIO()
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, header)
    return buffer.getvalue() + data


@pytest.mark.parametrize("mmap", [False, True])
def test_an_npy_that_claims_64_gb_is_refused(tmp_path: Path, mmap: bool) -> None:
    path = tmp_path / "rows.npy"
    path.write_bytes(npy((2**32, 4), bytes(64)))
    sentence = f"{path} claims {2**36} bytes of float32, but 64 bytes follow"
    assert refusal(lambda: read_npy(path, mmap)) == sentence
    assert refusal(lambda: read_features(path, 4)) == sentence
    assert refusal(lambda: read_vector(f"@{path}")) == sentence


def test_a_damaged_npy_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "rows.npy"
    good = npy((2, 2), bytes(16))
    for data in (b"", good[:5], good[:9], good[:-1], good + b"x", good.replace(b"(2, 2)", b"(2,"),
                 b"\x93NUMPY\x01\x00\x76\x00" + b"(" * 118, npy((-1, -4), bytes(16)),
                 npy((2,), bytes(16), "|O")):  # fmt: skip
        path.write_bytes(data)
        assert str(path) in refusal(lambda: read_npy(path))


def test_a_small_npz_that_unfolds_to_gigabytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("features.npy", "w", force_zip64=True) as member,
    ):
        member.write(npy((16 * MIB, 4)))
        for _ in range(256):
            member.write(bytes(MIB))
    assert "would unfold to 0.3 GB" in refusal(lambda: read_features(path, 4))
    assert "store it without compression" in refusal(lambda: read_npz(path))


def test_a_damaged_npz_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "samples.npz"
    np.savez_compressed(path, features=np.ones((8, 4)), **{"class": ["a"] * 8})
    good = path.read_bytes()
    rng = np.random.default_rng(0)
    refused = []
    for _ in range(200):
        data = bytearray(good)
        for place in rng.integers(0, len(data), 3):
            data[place] = rng.integers(256)
        path.write_bytes(bytes(data[: rng.integers(1, len(data))] if rng.random() < 0.3 else data))
        try:
            found = read_npz(path)
        except DataError as error:  # and no other error
            refused.append(str(error))
        else:
            assert all(len(array) == 8 for array in found.values())
    assert len(refused) > 100
    assert all(str(path) in sentence and "\n" not in sentence for sentence in refused)


def test_an_array_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("features.npy", npy((1, 4), bytes(16)))
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("features.npy", npy((1, 4), b"\1" * 16))
    assert "has the array 'features' twice" in refusal(lambda: read_npz(path))


# ---------------------------------------------------------------------- tables
def test_a_csv_of_a_million_columns_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(",".join(f"f{i}" for i in range(10**6)) + "\n")
    with pytest.raises(DataError, match="has 1000000 columns; at most 20000 are accepted"):
        read_frame(path)


def test_a_column_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    path = tmp_path / "rows.csv"
    for header in ("class,f0,f0", '"class",f0,class', "class,f0,f1,f0\n"):
        path.write_text(f"{header}\na,1,2\n")
        assert "twice; names must be unique" in refusal(lambda: read_frame(path))
    table = pa.table([pa.array([1.0]), pa.array([2.0])], names=["f0", "f0"])
    parquet.write_table(table, tmp_path / "rows.parquet")
    assert "column 'f0' twice" in refusal(lambda: read_frame(tmp_path / "rows.parquet"))


def test_a_row_that_is_longer_than_the_header_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    for rows in ("a,1,2\nb,3,4\n", "a,1\nb,3,4\n"):
        path.write_text(f"class,f0\n{rows}")
        assert str(path) in refusal(lambda: read_frame(path))


@pytest.mark.parametrize("data", [b"", b"\xff\xfe\x00", b'a,b\n"x', b"PAR1", b"PAR1" * 3, b"\0"])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_damaged_table_is_one_sentence(tmp_path: Path, data: bytes, suffix: str) -> None:
    path = tmp_path / f"rows{suffix}"
    path.write_bytes(data)
    assert str(path) in refusal(lambda: read_features(path, 4))


def test_a_parquet_that_unfolds_to_gigabytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    frame = pd.DataFrame({f"f{i}": np.zeros(2**18) for i in range(64)})
    frame.to_parquet(path)
    assert os.path.getsize(path) < MIB
    assert "would unfold to" in refusal(lambda: read_frame(path))


def test_deep_json_in_a_table_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "classes.csv"
    path.write_text(f"name,attributes\ncat,{'[' * 10**5}\n")
    (tmp_path / "samples.csv").write_text("class,f0\ncat,1\n")
    assert "is not a list of numbers" in refusal(lambda: load_dataset(tmp_path))


# ---------------------------------------------------------------------- MATLAB
def test_a_v5_file_that_unfolds_to_gigabytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "zeros.mat"
    savemat(path, {"features": np.zeros((8, 2 * MIB)), "a": np.ones(3)}, do_compression=True)
    assert "would unfold to 0.1 GB" in refusal(lambda: read_mat(path, ["features"]))
    assert read_mat(path, ["a"])["a"].tolist() == [[1, 1, 1]]


def test_a_damaged_v5_file_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "rows.mat"
    savemat(path, {"labels": np.ones(4), "features": np.ones((8, 4))})
    good = path.read_bytes()
    for data in (b"", b"MATLAB", good[:100], good[:140], good[:-40], good[:128] + bytes(64),
                 b"\0" * 256, good[:124] + b"\0\3IM" + good[128:]):  # fmt: skip
        path.write_bytes(data)
        assert str(path) in refusal(lambda: read_features(path, 4))


def test_honest_v5_files_are_read_whatever_they_hold(tmp_path: Path) -> None:
    path = tmp_path / "honest.mat"
    names = np.array(["zebra", "übergroß", "a"], dtype=object)
    values = {"features": np.arange(6.0).reshape(2, 3), "labels": np.uint8([[1], [2]]),
              "allclasses_names": names, "one": 1.5, "z": np.ones((2, 2)) * 1j,
              "word": "text", "empty": np.zeros((0, 0))}  # fmt: skip
    for compressed in (False, True):
        savemat(path, values, do_compression=compressed)
        found = read_mat(path, list(values))
        np.testing.assert_array_equal(found["features"], values["features"])
        assert found["allclasses_names"] == tuple(names)
        assert found["labels"].ravel().tolist() == [1, 2]
        assert found["word"] == ("text",)
        assert found["empty"].size == 0
    savemat(path, {"labels": {"field": 1}})
    assert "is a structure" in refusal(lambda: read_mat(path, ["labels"]))


@pytest.mark.parametrize("how", ["external", "external link", "soft link", "virtual"])
def test_a_v7_3_file_reads_no_other_file(tmp_path: Path, how: str) -> None:
    h5py = pytest.importorskip("h5py")
    secret = tmp_path / "secret"
    secret.write_bytes(np.arange(8.0).tobytes())
    with h5py.File(tmp_path / "other.h5", "w") as other:
        other["features"] = np.arange(8.0).reshape(2, 4)
    path = tmp_path / "rows.mat"
    with h5py.File(path, "w", userblock_size=512) as file:
        if how == "external":
            file.create_dataset("features", (2, 4), "<f8", external=[(str(secret), 0, 64)])
        elif how == "external link":
            file["features"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "features")
        elif how == "soft link":
            file["features"] = h5py.SoftLink("/features")
        else:
            layout = h5py.VirtualLayout((2, 4), "<f8")
            layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "features", (2, 4))
            file.create_virtual_dataset("features", layout)
        if how == "external":
            cell = file.create_dataset("#refs#/a", (4,), "<u2", external=[(str(secret), 0, 8)])
            file.create_dataset("names", data=[cell.ref], dtype=h5py.ref_dtype)
    expected = "is a link" if "link" in how else "takes its numbers from another file"
    assert expected in refusal(lambda: read_features(path, 4))
    with MatFile(path) as file:
        assert expected in refusal(lambda: file.matrix("features", True))
    if how == "external":
        assert expected in refusal(lambda: read_mat(path, ["names"]))


def test_a_v7_3_file_that_claims_64_gb_is_refused(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "rows.mat"
    with h5py.File(path, "w", userblock_size=512) as file:
        file.create_dataset("features", (2**31, 4), "<f8", chunks=(1024, 4))
    assert "would unfold to 68.7 GB" in refusal(lambda: read_features(path, 4))
    with MatFile(path) as file:
        assert "would unfold" in refusal(lambda: next(file.pieces("features", True)))


# ---------------------------------------------------------------------- what stands beside
@pytest.mark.parametrize(
    "text",
    ['{"about": 3}', '{"name": {}}', '{"folds": 7}', '{"folds": [[1]]}', '{"folds": [[[], 3]]}',
     '{"attribute_names": 5}', "[" * 10**5, '{"a": NaN}'],
)  # fmt: skip
def test_what_is_said_of_a_data_set_is_checked(tmp_path: Path, text: str) -> None:
    (tmp_path / "classes.csv").write_text("name,a0\ncat,1\ndog,2\n")
    (tmp_path / "samples.csv").write_text("class,f0\ncat,1\ndog,2\n")
    load_dataset(tmp_path)
    (tmp_path / "dataset.json").write_text(text)
    assert "dataset.json" in refusal(lambda: load_dataset(tmp_path))


@pytest.mark.parametrize(
    "made",
    [{"attribute_blocks": 3}, {"attribute_blocks": ["x"]}, {"attribute_kinds": {}},
     {"encoder": 3}, {"attribute_names": "abc"}],
)  # fmt: skip
def test_what_a_file_says_of_its_vectors_is_checked(tmp_path: Path, made: dict[str, Any]) -> None:
    path = tmp_path / "classes.parquet"
    frame = pd.DataFrame({"name": ["cat", "dog"]})
    write_classes(path, frame, np.eye(2), made)
    assert str(path) in refusal(lambda: read_attribute_file(path))
