"""Model folders that were changed: one sentence, with digests as they were or recomputed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hgkt import HGKTClassifier, load_model
from hgkt.estimators.methods import METHODS
from hgkt.estimators.model_folder import (
    ModelFolder,
    build_model,
    read_model_folder,
    write_model_folder,
)
from hgkt.exceptions import ModelFolderError

Arrays = Mapping[str, NDArray[Any]]
QUICK = {"n_steps": 4, "n_epochs": 2, "n_hidden": 9}
SIZES = {"L": 7, "D": 11, "d": 5}


def fitted(name: str) -> Any:
    rng = np.random.default_rng(0)
    names = [f"class {letter}" for letter in "abcdefghi"]
    attributes = rng.random((9, SIZES["d"]))
    means = np.exp(attributes @ rng.random((SIZES["d"], SIZES["D"])) / 2)
    codes = np.repeat(np.arange(7), 8)
    X = means[codes] + 0.05 * rng.random((len(codes), SIZES["D"]))
    vectors = means if METHODS[name].shared_space else attributes
    table = dict(zip(names, vectors, strict=True))
    model = METHODS.load(name)()
    known = model.get_params()
    model.set_params(**{key: value for key, value in QUICK.items() if key in known})
    return model.fit(X, np.array(names)[codes], table)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Give the saved folder of a method, made once."""
    made: dict[str, Path] = {}

    def folder(name: str) -> Path:
        if name not in made:
            made[name] = fitted(name).save(tmp_path_factory.mktemp("saved") / "model")
        return made[name]

    return folder


@pytest.fixture
def folder(folders: Callable[[str], Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(folders("hgkt"), tmp_path / "model"))


def rewritten(source: Path, target: Path, **parts: Any) -> Path:
    """Write a folder with other parts, all digests recomputed."""
    old = read_model_folder(source)
    config = {**old.config, **parts.get("config", {})}
    config = {key: config[key] for key in config if key not in ("sha256", "format_version")}
    arrays, classes = parts.get("arrays", old.arrays), parts.get("classes", old.classes)
    shutil.rmtree(target, ignore_errors=True)
    return write_model_folder(target, ModelFolder(config, arrays, classes, old.card))


def refusal(path: Path) -> str:
    with pytest.raises(ModelFolderError) as refused:
        load_model(path)
    sentence = str(refused.value)
    assert "\n" not in sentence
    return sentence


# ------------------------------------------------------------------ digests
def test_one_changed_number_of_the_config_is_noticed(folder: Path) -> None:
    config = folder / "config.json"
    text = config.read_text()
    for old, new in [('"norm_power": 1.0', '"norm_power": 9.0'), ('"L": ', '"l": '),
                     ('"has_attributes": true', '"has_attributes": false')]:  # fmt: skip
        changed = text.replace(old, new)
        config.write_text(changed)
        if changed != text:
            assert "config.json is not the file that was saved" in refusal(folder)
    document = json.loads(text)
    del document["sha256"]["config.json"]
    config.write_text(json.dumps(document))
    assert "config.json is not the file that was saved" in refusal(folder)
    config.write_text(json.dumps(json.loads(text)))  # another layout of the same content
    assert len(load_model(folder).classes_) == 9


def test_a_bad_byte_in_the_card_does_not_matter(folder: Path) -> None:
    (folder / "README.md").write_bytes(b"\xff\xfe card")
    assert len(load_model(folder).classes_) == 9
    (folder / "README.md").unlink()
    assert len(load_model(folder).classes_) == 9


@pytest.mark.parametrize("text", ["[" * 10**6, '{"a":' * 10**6, "NaN", "", "\x00", "1" * 10**5])
def test_a_config_that_is_none_is_one_sentence(folder: Path, text: str) -> None:
    (folder / "config.json").write_text(text)
    assert refusal(folder).startswith(f"{folder / 'config.json'} ")


# ------------------------------------------------------------------ with digests recomputed
def wrong(name: str, array: NDArray[Any]) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield arrays that none should be taken for, and what is wrong with each."""
    if array.size and array.dtype.kind == "f":
        for value in (np.nan, np.inf):
            broken = array.copy()
            broken.flat[array.size // 2] = value
            yield "not finite", broken
        yield "of another kind", array.astype(np.int64)
    yield "a row short", array[:-1] if array.ndim else array[None]
    yield "a row long", np.concatenate([array, array[:1]]) if array.ndim else array[None]
    yield "of more axes", array[None]
    if array.ndim > 1:
        yield "a column short", array[..., :-1]
    if array.ndim == 2 and array.shape[0] != array.shape[1]:
        yield "on its side", array.T.copy()


@pytest.mark.parametrize("name", list(METHODS))
def test_an_array_that_does_not_fit_is_refused(folders: Callable[[str], Path], name: str) -> None:
    folder = read_model_folder(folders(name))
    arrays = folder.arrays

    def sentence(changed: Arrays) -> str:
        with pytest.raises(ModelFolderError) as refused:
            build_model(replace(folder, arrays=dict(changed)), "model")
        return str(refused.value)

    free = {"held_out", "transfer/losses", "transfer/codes", "transfer/indices", "learned/starts_"}
    for key, array in arrays.items():
        for what, broken in wrong(key, array):
            if what.startswith("a row") and (key in free or not len(broken)):
                continue  # its length is no other array's
            start = "model does not hold a complete model: "
            assert sentence({**arrays, key: broken}).startswith(start), (key, what)
        fewer = {other: array for other, array in arrays.items() if other != key}
        if key not in ("calibration", "held_out"):
            assert "array" in sentence(fewer), key
        assert "array" in sentence({**fewer, f"{key}x": array}), key


@pytest.mark.parametrize(
    "config",
    [
        {"n_features": 12},
        {"n_features": -1},
        {"n_features": "11"},
        {"n_attributes": 4},
        {"labels": "integer"},
        {"labels": "runes"},
        {"has_attributes": 1},
        {"parameters": []},
        {"parameters": {"feature_map": "cubed"}},
        {"parameters": {"calibration": "much"}},
        {"parameters": {"calibration": {}}},
        {"parameters": {"norm_power": None}},
        {"parameters": {"attribute_blocks": [2, 2]}},
        {"parameters": {"members": {"kernel": "rbf"}}},
        {"parameters": {"members": [3]}},
        {"parameters": {"members": [{"kernel": "rbf", "size": 3}]}},
        {"parameters": {"members": [{"kernel": "zero-shot"}]}},
        {"parameters": {"prior": 0.5}},
        {"parameters": {"shared_space": True}},
        {"feature_names": ["a", "b"]},
        {"about": []},
        {"parents": []},
        {"parents": {"class a": "left", "left": "class a"}},
        {"parents": {"class a": "class a"}},
        {"parents": {"class a": 3}},
        {"parents": {"class a": {"class b": "left"}}},
        {"parents": {str(n): str(n + 1) for n in range(1000)}},
    ],
)
def test_a_config_that_does_not_fit_is_refused(
    folder: Path, tmp_path: Path, config: dict[str, Any]
) -> None:
    path = rewritten(folder, tmp_path / "wrong", config=config)
    assert refusal(path).startswith(f"{path} does not hold a complete model: ")


def test_no_row_is_made_of_more_features_than_a_folder_has_numbers(
    folder: Path, tmp_path: Path
) -> None:
    path = rewritten(folder, tmp_path / "wide", config={"n_features": 10**9})
    assert "rows have 1,000,000,000 features and holds" in refusal(path)


def test_a_table_of_classes_that_does_not_fit_is_refused(folder: Path, tmp_path: Path) -> None:
    table = read_model_folder(folder).classes
    twice = table["name"].where(table["name"] != "class b", "class a")
    short = [row[:-1] for row in table["attributes"]]
    nan = [np.full_like(row, np.nan) for row in table["attributes"]]
    for changed in [
        table.drop(columns="seen"),
        table.assign(seen=table["seen"].astype(int)),
        table.assign(seen=~table["seen"]),
        table.assign(name=twice),
        table.assign(name=range(len(table))),
        table.assign(attributes=short),
        table.assign(attributes=nan),
        table.iloc[:-1],
        table.iloc[::-1].reset_index(drop=True),
    ]:
        path = rewritten(folder, tmp_path / "wrong", classes=changed)
        assert refusal(path).startswith(f"{path} does not hold a complete model: ")


def test_a_network_whose_graph_points_nowhere_is_refused(
    folders: Callable[[str], Path], tmp_path: Path
) -> None:
    source = folders("hgkt-network")
    arrays = read_model_folder(source).arrays
    for key in ("codes", "representatives", "indptr", "indices"):
        for value in (-1, 10**6):
            broken = arrays[f"transfer/{key}"].copy()
            broken[-1] = value
            changed = {**arrays, f"transfer/{key}": broken}
            path = rewritten(source, tmp_path / "model", arrays=changed)
            assert refusal(path).startswith(f"{path} does not hold a complete model: ")


def test_what_is_read_is_what_was_checked(folder: Path) -> None:
    """Classes come from the bytes under the digest, not from a file read a second time."""
    seen: list[str] = []
    read = Path.read_bytes

    def count(path: Path) -> bytes:
        seen.append(path.name)
        return read(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "read_bytes", count)
        load_model(folder)
    assert sorted(seen) == ["classes.parquet", "config.json", "model.safetensors"]
    assert isinstance(load_model(folder), HGKTClassifier)


def test_an_array_that_nobody_named_is_refused(folder: Path, tmp_path: Path) -> None:
    old = read_model_folder(folder)
    arrays = {**old.arrays, "learned/forgotten_": np.zeros(3)}
    with pytest.raises(ModelFolderError, match="'learned/forgotten_', which its config does not"):
        build_model(replace(old, arrays=arrays), folder)
