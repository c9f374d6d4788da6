"""The benchmark's layout: real folders and every variant of the files that circulates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from scipy.io import loadmat, savemat

from hgkt.data import load_dataset, read_xlsa17
from hgkt.data.xlsa17 import feature_files
from hgkt.exceptions import DataError, UnknownNameError

NAMES = ("001.Black_Bird", "grizzly+bear", "zebra", "okapi")
N, D, WIDTH = 12, 5, 3
RNG = np.random.default_rng(0)
FEATURES = RNG.random((D, N)).astype(np.float32)
LABELS = np.arange(N) % 4 + 1
ATTRIBUTES = RNG.random((WIDTH, 4))


def cell(texts: tuple[str, ...]) -> np.ndarray:
    out = np.empty((len(texts), 1), dtype=object)
    out[:, 0] = texts
    return out


def feature_vars() -> dict[str, Any]:
    return {"features": FEATURES, "labels": LABELS[:, None]}


def split_vars() -> dict[str, Any]:
    rows = np.arange(1, N + 1)
    unseen = rows[LABELS == 4]
    seen = rows[LABELS != 4]
    return {
        "att": ATTRIBUTES,
        "original_att": np.where(ATTRIBUTES < 0.3, -1.0, ATTRIBUTES * 100),
        "allclasses_names": cell(NAMES),
        "trainval_loc": seen[:6][:, None],
        "test_seen_loc": seen[6:][:, None],
        "test_unseen_loc": unseen[:, None],
    }


def write(folder: Path, features: dict[str, Any], splits: dict[str, Any]) -> Path:
    folder.mkdir(exist_ok=True)
    savemat(folder / "res101.mat", features)
    savemat(folder / "att_splits.mat", splits)
    return folder


def write_v73(path: Path, variables: dict[str, Any]) -> None:
    """Write as MATLAB does: reversed axes, cells as references to uint16 characters."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, value in variables.items():
            if value.dtype.kind == "O":
                refs = file.create_dataset(name, value.shape[::-1], h5py.ref_dtype)
                for position, text in enumerate(value.ravel()):
                    codes = np.array([[ord(c)] for c in text], dtype=np.uint16)
                    refs[0, position] = file.create_dataset(
                        f"#refs#/{name}{position}", data=codes
                    ).ref
            else:
                file.create_dataset(name, data=value.T)


@pytest.fixture
def standard(tmp_path: Path) -> Path:
    return write(tmp_path / "TOY", feature_vars(), split_vars())


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("HGKT_CACHE", str(folder))
    return folder


def test_xlsa17_reads_the_standard_layout(standard: Path) -> None:
    data = load_dataset(standard)
    assert data.name == "TOY"
    assert data.class_names == NAMES
    assert np.array_equal(data.features, FEATURES.T)
    assert np.array_equal(data.labels, LABELS - 1)
    np.testing.assert_allclose(data.class_attributes, ATTRIBUTES.T, rtol=1e-6)
    assert data.train.tolist() == [0, 1, 2, 4, 5, 6]
    assert data.test_unseen.tolist() == [3, 7, 11]
    assert data.folds == ()
    assert data.about["attribute_blocks"] == [WIDTH]
    assert data.about["features"] == "res101.mat"


def variant(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    features, splits = feature_vars(), split_vars()
    if name == "transposed features":
        features["features"] = FEATURES.T
    elif name == "transposed attributes":
        splits["att"] = ATTRIBUTES.T
    elif name == "row labels and locs":
        features["labels"] = features["labels"].T
        splits = {k: v.T if k.endswith("loc") else v for k, v in splits.items()}
    elif name == "float labels and locs":
        features["labels"] = features["labels"].astype(np.float64)
        splits = {k: v.astype(float) if k.endswith("loc") else v for k, v in splits.items()}
    elif name == "small integers":
        features["labels"] = features["labels"].astype(np.uint8)
        splits = {k: v.astype(np.uint8) if k.endswith("loc") else v for k, v in splits.items()}
    elif name == "names as characters":
        splits["allclasses_names"] = np.array(NAMES)
    elif name == "names in a row":
        splits["allclasses_names"] = splits["allclasses_names"].T
    return features, splits


VARIANTS = [
    "transposed features",
    "transposed attributes",
    "row labels and locs",
    "float labels and locs",
    "small integers",
    "names as characters",
    "names in a row",
]


@pytest.mark.parametrize("name", VARIANTS)
def test_xlsa17_variants_read_as_the_standard(name: str, standard: Path, tmp_path: Path) -> None:
    other = read_xlsa17(write(tmp_path / "OTHER", *variant(name)))
    assert other.validate().fingerprint() == read_xlsa17(standard).fingerprint()


@pytest.mark.parametrize("name", ["standard", "transposed features", "float labels and locs"])
@pytest.mark.parametrize("mmap", [False, True])
def test_xlsa17_v73_reads_as_v5(name: str, mmap: bool, standard: Path, tmp_path: Path) -> None:
    folder = tmp_path / "HDF"
    folder.mkdir()
    features, splits = variant(name)
    write_v73(folder / "res101.mat", {**features, "image_files": cell(("é.jpg",) * N)})
    write_v73(folder / "att_splits.mat", splits)
    data = read_xlsa17(folder, mmap=mmap)
    assert data.fingerprint() == read_xlsa17(standard).fingerprint()
    assert data.image_files == ("é.jpg",) * N
    assert isinstance(data.features, np.memmap) == mmap


def test_xlsa17_one_dimensional_v73_labels(standard: Path, tmp_path: Path) -> None:
    folder = write(tmp_path / "HDF", feature_vars(), split_vars())
    write_v73(folder / "res101.mat", {"features": FEATURES, "labels": LABELS})
    assert read_xlsa17(folder).fingerprint() == read_xlsa17(standard).fingerprint()


def test_xlsa17_mmap_converts_once_and_again_when_the_file_changes(
    standard: Path, cache: Path
) -> None:
    first = read_xlsa17(standard, mmap=True)
    assert isinstance(first.features, np.memmap)
    assert np.array_equal(first.features, FEATURES.T)
    made = {path: path.stat().st_mtime_ns for path in cache.iterdir()}
    assert len(made) == 1
    read_xlsa17(standard, mmap=True)
    assert {path: path.stat().st_mtime_ns for path in cache.iterdir()} == made
    savemat(standard / "res101.mat", {**feature_vars(), "features": FEATURES * 2, "more": 1})
    assert np.array_equal(read_xlsa17(standard, mmap=True).features, FEATURES.T * 2)


def test_xlsa17_mmap_streams_a_large_hdf5_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hgkt.data.arrays._CHUNK_BYTES", 50)
    for orientation in ("standard", "transposed features"):
        folder = tmp_path / orientation.split()[0]
        folder.mkdir()
        features, splits = variant(orientation)
        write_v73(folder / "res101.mat", features)
        write_v73(folder / "att_splits.mat", splits)
        assert np.array_equal(read_xlsa17(folder, mmap=True).features, FEATURES.T)


def test_xlsa17_mmap_says_where_the_copy_should_have_gone(
    standard: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HGKT_CACHE", str(tmp_path / "file"))
    sentence = r"cannot write .*res101-\w+\.npy: .* features of .*res101.mat\); .* HGKT_CACHE$"
    with pytest.raises(DataError, match=sentence):
        read_xlsa17(standard, mmap=True)


def test_xlsa17_mmap_leaves_no_copy_of_a_broken_file(standard: Path, cache: Path) -> None:
    write(standard, {**feature_vars(), "features": cell(("a",) * N).T}, split_vars())
    with pytest.raises(DataError, match=r"features of .*res101.mat are not numbers"):
        read_xlsa17(standard, mmap=True)
    path = standard / "res101.mat"
    wide = RNG.random((2000, N))
    with h5py.File(path, "w", userblock_size=512) as file:
        file.create_dataset("labels", data=LABELS[None])
        file.create_dataset("features", data=wide.T, chunks=(1, len(wide)), compression="gzip")
    whole = path.read_bytes()
    half = len(whole) // 2
    path.write_bytes(whole[:half] + bytes(5000) + whole[half + 5000 :])
    with pytest.raises(DataError, match=r"res101.mat cannot be read as a MATLAB file"):
        read_xlsa17(standard, mmap=True)
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8])
def test_xlsa17_takes_npy_features(standard: Path, mmap: bool, dtype: type) -> None:
    values = (FEATURES.T * 100).astype(dtype)
    np.save(standard / "clip.npy", values)
    np.save(standard / "labels.npy", LABELS)
    data = load_dataset(standard, features="clip", mmap=mmap)
    assert np.array_equal(data.features, values)
    assert isinstance(data.features, np.memmap) == mmap
    assert data.rows("train")[0].dtype == np.float32


def test_xlsa17_original_attributes_missing_is_zero_and_percent_is_a_share(standard: Path) -> None:
    data = read_xlsa17(standard, attributes="original_att")
    expected = np.where(ATTRIBUTES < 0.3, 0.0, ATTRIBUTES).T
    np.testing.assert_allclose(data.class_attributes, expected, atol=1e-6)


def test_xlsa17_original_attributes_within_one_stay(tmp_path: Path) -> None:
    folder = write(tmp_path / "A", feature_vars(), {**split_vars(), "original_att": ATTRIBUTES})
    data = read_xlsa17(folder, attributes="original_att")
    np.testing.assert_allclose(data.class_attributes, ATTRIBUTES.T, rtol=1e-6)


def test_xlsa17_joined_attributes_have_unit_parts_matched_by_name(standard: Path) -> None:
    sentences = RNG.random((7, 4))
    order = [2, 0, 3, 1]
    shuffled = {
        "att": sentences[:, order],
        "allclasses_names": cell(tuple(NAMES[i] for i in order)),
    }
    savemat(standard / "sent_splits.mat", shuffled)
    data = read_xlsa17(standard, attributes="att+sent")
    assert data.about["attribute_blocks"] == [WIDTH, 7]
    for part, source in ((data.class_attributes[:, :WIDTH], ATTRIBUTES),
                         (data.class_attributes[:, WIDTH:], sentences)):  # fmt: skip
        np.testing.assert_allclose(part, (source / np.linalg.norm(source, axis=0)).T, rtol=1e-5)


def test_xlsa17_without_names_numbers_the_classes(tmp_path: Path) -> None:
    splits = split_vars()
    del splits["allclasses_names"]
    folder = write(tmp_path / "A", feature_vars(), splits)
    (folder / "trainclasses1.txt").write_text("zebra\n")
    (folder / "valclasses1.txt").write_text("okapi\n")
    data = load_dataset(folder)
    assert data.class_names == ("class 1", "class 2", "class 3", "class 4")
    assert data.folds == ()
    assert data.about["unmatched_classes"] == ["okapi", "zebra"]


def test_xlsa17_reads_attribute_names(tmp_path: Path) -> None:
    splits = {**split_vars(), "attributes_names": cell(("x", "y", "z"))}
    assert read_xlsa17(write(tmp_path / "A", feature_vars(), splits)).attribute_names == (
        "x", "y", "z",
    )  # fmt: skip


def test_xlsa17_folds_match_other_spellings_and_leave_out_unseen(standard: Path) -> None:
    (standard / "trainclasses1.txt").write_text("black bird\nGrizzly_Bear\n\n")
    (standard / "valclasses1.txt").write_text("zebra \nokapi\nunicorn\n")
    (standard / "trainclasses2.txt").write_text("okapi\n")
    (standard / "valclasses2.txt").write_text("zebra\n")
    data = load_dataset(standard)
    assert data.class_folds() == [(["001.Black_Bird", "grizzly+bear"], ["zebra"])]
    assert data.about["unmatched_classes"] == ["unicorn"]


def test_xlsa17_never_trains_on_train_loc_and_counts_its_leak(tmp_path: Path) -> None:
    splits = split_vars()
    leaky = np.concatenate([splits["trainval_loc"], splits["test_seen_loc"][:2]])
    folder = write(tmp_path / "A", feature_vars(), {**splits, "train_loc": leaky})
    data = load_dataset(folder)
    assert data.train.tolist() == (splits["trainval_loc"].ravel() - 1).tolist()
    assert data.about["leaks"] == {"att_splits.mat:train_loc": 2}


def broken(kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    features, splits = feature_vars(), split_vars()
    if kind == "labels from zero":
        features["labels"] = LABELS - 1
    elif kind == "fractional labels":
        features["labels"] = LABELS + 0.5
    elif kind == "nan labels":
        features["labels"] = np.where(LABELS == 2, np.nan, LABELS)
    elif kind == "no labels":
        del features["labels"]
    elif kind == "no features":
        del features["features"]
    elif kind == "misfit features":
        features["features"] = FEATURES[:, :-1]
    elif kind == "label matrix":
        features["labels"] = np.ones((3, 4))
    elif kind == "no trainval":
        del splits["trainval_loc"]
    elif kind == "loc beyond":
        splits["test_seen_loc"] = np.array([[N + 1]])
    elif kind == "loc zero":
        splits["test_seen_loc"] = np.array([[0]])
    elif kind == "misfit attributes":
        splits["att"] = ATTRIBUTES[:, :-1]
    elif kind == "no attributes":
        del splits["att"]
    elif kind == "text features":
        features["features"] = cell(("a",) * N).T
    return features, splits


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("labels from zero", r"labels of .*res101.mat holds 0 at position 1; .* counts from 1"),
        ("fractional labels", "labels of .*res101.mat must be .* whole numbers"),
        ("nan labels", "labels of .*res101.mat must be .* whole numbers"),
        ("no labels", "res101.mat has no variable 'labels'"),
        ("label matrix", r"labels of .*res101.mat must be a vector .* \(3, 4\)"),
        ("misfit features", r"features of .*res101.mat have shape \(5, 11\)"),
        ("no features", "res101.mat has no variable 'features'"),
        ("text features", "features of .*res101.mat are not numbers"),
        ("no trainval", "att_splits.mat has no variable 'trainval_loc'"),
        ("loc beyond", "test_seen_loc of .*att_splits.mat points to image 13, but there are 12"),
        ("loc zero", "test_seen_loc of .*att_splits.mat holds 0 at position 1"),
        ("misfit attributes", r"att of .*att_splits.mat has shape \(3, 3\)"),
        ("no attributes", "att_splits.mat has no variable 'att'"),
    ],
)
def test_xlsa17_wrong_contents_are_one_sentence(kind: str, sentence: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "A", *broken(kind))
    with pytest.raises(DataError, match=sentence):
        load_dataset(folder)


@pytest.mark.parametrize("name", ["res101.mat", "att_splits.mat"])
@pytest.mark.parametrize("generation", ["5", "7.3"])
def test_xlsa17_truncated_file_is_named(name: str, generation: str, standard: Path) -> None:
    path = standard / name
    if generation == "7.3":
        write_v73(path, feature_vars() if name == "res101.mat" else split_vars())
    whole = path.read_bytes()
    n_bytes = len(whole)
    for end in (0, 3, 100, 200, n_bytes // 2, n_bytes - 9):
        path.write_bytes(whole[:end])
        with pytest.raises(DataError, match=name):
            load_dataset(standard)


def test_xlsa17_wrong_kind_of_file_is_named(standard: Path) -> None:
    (standard / "res101.mat").write_text("<html>404</html>" * 100)
    with pytest.raises(DataError, match=r"res101.mat cannot be read as a MATLAB file"):
        load_dataset(standard)


def test_xlsa17_missing_feature_file_lists_what_is_there(standard: Path) -> None:
    with pytest.raises(DataError, match=r"no feature file vgg.mat; feature files there: res101"):
        load_dataset(standard, features="vgg")
    assert feature_files(standard) == ["res101"]


@pytest.mark.parametrize(
    ("attributes", "sentence"),
    [("w2v", "unknown attributes 'w2v'"), ("sent", "has no sent_splits.mat")],
)
def test_xlsa17_missing_attributes_are_one_sentence(
    attributes: str, sentence: str, standard: Path
) -> None:
    with pytest.raises(DataError, match=sentence):
        load_dataset(standard, attributes=attributes)


def test_xlsa17_missing_original_att_says_what_to_try(tmp_path: Path) -> None:
    splits = split_vars()
    del splits["original_att"]
    folder = write(tmp_path / "A", feature_vars(), splits)
    with pytest.raises(DataError, match="'original_att'; try attributes='att'"):
        load_dataset(folder, attributes="original_att")


def test_load_dataset_finds_folders_by_name_in_any_case(
    standard: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load_dataset("toy", root=standard.parent).name == "TOY"
    monkeypatch.setenv("HGKT_DATA", str(standard.parent))
    assert load_dataset("Toy").name == "TOY"
    with pytest.raises(UnknownNameError, match=r"'SUN' .* there is: digits, synthetic, TOY"):
        load_dataset("SUN")
    with pytest.raises(DataError, match="no option 'seeds'"):
        load_dataset("toy", seeds=1)


# ---------------------------------------------------------------------- real files
def test_real_cub_is_read_as_the_raw_files_say(data_root: Path) -> None:
    data = load_dataset("cub", root=data_root, features="efflite2")
    raw, splits = loadmat(data_root / "CUB/efflite2.mat"), loadmat(data_root / "CUB/att_splits.mat")
    assert np.array_equal(data.features, raw["features"].T)
    assert data.summary() == {
        "name": "CUB", "n_instances": 11788, "n_features": 1280, "n_attributes": 312,
        "n_classes": 200, "n_seen_classes": 150, "n_unseen_classes": 50, "n_train": 7057,
        "n_test_seen": 1764, "n_test_unseen": 2967, "n_folds": 3,
    }  # fmt: skip
    # The folder an image lies in says its class: an independent witness of label and name order.
    assert data.image_files is not None
    folders = [file.split("/")[0] for file in data.image_files]
    assert folders == data.names(data.labels)
    assert np.array_equal(data.train + 1, splits["trainval_loc"].ravel())
    for train, val in data.class_folds():
        assert len(train) == 100
        assert len(val) == 50
        assert not set(train) & set(val)
        assert set(train) | set(val) == set(data.names(data.seen_classes))
    train, val = data.class_folds()[0]
    labels = data.rows("train")[1]
    assert (np.isin(labels, train).sum(), np.isin(labels, val).sum()) == (4702, 2355)
    assert data.about["unmatched_classes"] == []


def test_real_cub_joins_attributes_and_sentences(data_root: Path) -> None:
    data = load_dataset("CUB", root=data_root, features="efflite2", attributes="att+sent")
    assert data.about["attribute_blocks"] == [312, 1024]
    np.testing.assert_allclose(np.linalg.norm(data.class_attributes, axis=1), 2**0.5, rtol=1e-5)


def test_real_awa1_is_read_and_mapped(data_root: Path) -> None:
    data = load_dataset("AwA1", root=data_root, features="rgsift", mmap=True, validate=False)
    raw = loadmat(data_root / "AWA1/rgsift.mat")
    assert isinstance(data.features, np.memmap)
    assert np.array_equal(data.features, raw["features"].T)
    assert data.summary()["n_train"] == 19832
    train, val = data.class_folds()[0]
    assert (len(train), len(val)) == (27, 13)
    labels = np.array(data.class_names)[data.labels[data.train]]
    assert (np.isin(labels, train).sum(), np.isin(labels, val).sum()) == (13460, 6372)
    assert "polar+bear" in data.class_names


def test_xlsa17_takes_the_attributes_of_any_split_file(standard: Path) -> None:
    vectors = RNG.random((4, 7))
    savemat(standard / "w2v_splits.mat", {**split_vars(), "att": vectors.T})
    data = read_xlsa17(standard, attributes="w2v")
    np.testing.assert_allclose(data.class_attributes, vectors.astype(np.float32), rtol=1e-6)
    with pytest.raises(DataError, match=r"no glove_splits.mat; .* original_att, w2v"):
        read_xlsa17(standard, attributes="glove")


def test_xlsa17_takes_the_only_feature_file_that_is_there(standard: Path) -> None:
    (standard / "res101.mat").rename(standard / "vit.mat")
    assert read_xlsa17(standard).about["features"] == "vit.mat"
    with pytest.raises(DataError, match=r"no feature file res101.mat; .* there: vit .*--features"):
        read_xlsa17(standard, features="res101")
    (standard / "other.mat").write_bytes((standard / "vit.mat").read_bytes())
    with pytest.raises(DataError, match="there: other, vit"):
        read_xlsa17(standard)
