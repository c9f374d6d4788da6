"""Every kind of file that hgkt reads: a valid one, and what reading it answers."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from _mutations import Rng, mutated_array, mutated_bytes, mutated_config
from _records import RESULTS

N_FEATURES = 12


@dataclass(frozen=True)
class Kind:
    """One kind of file or folder.

    Parameters
    ----------
    make : callable
        Takes a path and writes a valid one there.
    read : callable
        Takes the path and returns what decides its answer.
    has_digest : bool
        Whether any other answer than that of the valid one is wrong.
    mutate : callable, optional
        Damages it in a way of its own; otherwise the bytes of one of its files are damaged.
    suffix : str
        Of a single file.
    """

    make: Callable[[Path], object]
    read: Callable[[Path], Any]
    has_digest: bool = False
    mutate: Callable[[Path, Rng], None] | None = None
    suffix: str = ""


def digest(*values: Any) -> str:
    """Return one text for what was read, arrays and others."""
    made = hashlib.sha256()
    for value in values:
        if isinstance(value, np.ndarray):
            made.update(f"{value.shape}{value.dtype.kind}".encode() + value.tobytes())
        else:
            made.update(repr(value).encode())
    return made.hexdigest()


def damage(path: Path, rng: Rng) -> None:
    """Damage the bytes of one file of a folder, or of the file itself."""
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    file = files[rng.integers(len(files))]
    file.write_bytes(mutated_bytes(file.read_bytes(), rng))


def honest_size(path: Path) -> int:
    """Return the bytes of a file or folder as it stands on disk."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


# ---------------------------------------------------------------------- what the files hold
def _problem() -> tuple[Any, Any, dict[str, Any]]:
    rng = np.random.default_rng(5)
    attributes = rng.random((8, 4))
    means = np.exp(attributes @ rng.random((4, N_FEATURES)))
    codes = np.repeat(np.arange(7), 12)
    X = (means[codes] + 0.1 * rng.random((len(codes), N_FEATURES))).astype(np.float32)
    names = [f"class {letter}" for letter in "abcdefgh"]
    return X, np.array(names)[codes], dict(zip(names, attributes, strict=True))


def _dataset() -> Any:
    from hgkt.data import GZSLDataset

    X, y, table = _problem()
    names = list(table)
    labels = np.array([names.index(name) for name in y])
    train = np.flatnonzero((labels < 6) & (np.arange(len(y)) % 3 > 0))
    return GZSLDataset(
        name="own", features=X, labels=labels, class_names=names,
        class_attributes=np.array(list(table.values())), train=train,
        test_seen=np.setdiff1d(np.flatnonzero(labels < 6), train),
        test_unseen=np.flatnonzero(labels == 6),
    )  # fmt: skip


def _model(method: str) -> Any:
    from hgkt.estimators import METHODS

    X, y, table = _problem()
    quick = {"n_steps": 5, "n_hidden": 6, "random_state": 0}
    model = METHODS.load(method)()
    known = model.get_params()
    model.set_params(**{name: value for name, value in quick.items() if name in known})
    return model.fit(X, y, table)


def _scores(path: Path) -> str:
    from hgkt import load_model

    model = load_model(path)
    return digest(model.classes_.tolist(), np.round(model.score_classes(_problem()[0]), 9))


# ---------------------------------------------------------------------- model folders
def _model_kind(method: str) -> Kind:
    return Kind(lambda path: _model(method).save(path), _scores, has_digest=True)


def _rewritten(path: Path, rng: Rng) -> None:
    """Change an array, the config or the classes so that they fit no model; renew all digests."""
    from hgkt.estimators.model_folder import read_model_folder, write_model_folder

    folder = read_model_folder(path)
    made = ("sha256", "format_version")
    config = {key: value for key, value in folder.config.items() if key not in made}
    arrays, classes = dict(folder.arrays), folder.classes
    choice = rng.integers(5)
    names = list(arrays)
    name = names[rng.integers(len(names))]
    if choice == 0:
        config = mutated_config(config, rng)
    elif choice == 1:
        classes = classes.drop(columns=classes.columns[rng.integers(3)])
    elif choice == 2:
        arrays[f"{name}?"] = arrays.pop(name)
    elif choice == 3:
        classes = classes.iloc[: len(classes) - int(rng.integers(1, 4))]
    else:
        fixed = [n for n in names if not n.endswith(("losses", "codes", "indices"))]
        name = fixed[rng.integers(len(fixed))]
        arrays[name] = mutated_array(arrays[name], rng)
    shutil.rmtree(path)
    write_model_folder(path, replace(folder, config=config, arrays=arrays, classes=classes))


# ---------------------------------------------------------------------- single files
def _rows(path: Path) -> str:
    from hgkt.data import read_features

    return digest(read_features(path, N_FEATURES))


def _write_rows(path: Path) -> None:
    import pandas as pd
    from scipy.io import savemat

    X = _problem()[0]
    if path.suffix == ".npy":
        np.save(path, X)
    elif path.suffix == ".npz":
        np.savez_compressed(path, features=X, other=np.arange(3))
    elif path.suffix == ".mat":
        savemat(path, {"features": X.T}, do_compression=True)
    else:
        frame = pd.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])
        frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)


def _write_mat73(path: Path) -> None:
    import h5py

    with h5py.File(path, "w", userblock_size=512) as file:
        file.create_dataset("features", data=_problem()[0], compression="gzip")


def _attribute_file(path: Path) -> None:
    from hgkt.data.attributes import AttributeFile, write_attribute_file

    table = _problem()[2]
    values = np.array(list(table.values()), dtype=np.float32)
    file = AttributeFile(tuple(table), values, (3, 1), ("att", "file"), None, None)
    if path.suffix == ".parquet":
        write_attribute_file(path, file)
    else:
        lines = [f"{name},{','.join(map(str, row))}" for name, row in table.items()]
        path.write_text("name,big,red,old,tall\n" + "\n".join(lines) + "\n")


def _attributes(path: Path) -> str:
    from hgkt.data import read_attribute_file

    file = read_attribute_file(path)
    return digest(file.names, file.attributes, list(file.blocks))


def _class_list(path: Path) -> None:
    rows = [f'{name},"a {name}, seen from afar",{i < 6}' for i, name in enumerate(_problem()[2])]
    path.write_text("name,description,seen\n" + "\n".join(rows) + "\n")


def _classes(path: Path) -> str:
    from hgkt.language.class_lists import read_class_list

    found = read_class_list(path)
    return digest(sorted(found.texts.items()), found.seen)


def _image(path: Path) -> None:
    from PIL import Image

    pixels = (np.random.default_rng(2).random((48, 64, 3)) * 255).astype(np.uint8)
    Image.fromarray(pixels).save(path)


def _pixels(path: Path) -> str:
    from hgkt.vision.images import open_image

    return digest(np.asarray(open_image(path)))


def _checkpoint(path: Path) -> None:
    from hgkt.network.checkpoint import Checkpoint, write_checkpoint

    write_checkpoint(path, Checkpoint(7, "run", {"w": np.arange(64.0).reshape(8, 8)}))


def _resume(path: Path) -> str:
    from hgkt.network.checkpoint import read_checkpoint

    found = read_checkpoint(path, "run")
    return digest(found.step, *found.arrays.values()) if found else "none"


def _vector(path: Path) -> str:
    from hgkt.cli._inputs import read_vector

    return digest(read_vector(f"@{path}"))


def _record(path: Path) -> None:
    source = sorted((RESULTS / "cells").glob("*.json"))
    documents = (json.loads(file.read_text()) for file in source)
    values = next(d["values"] for d in documents if d["values"].get("format"))
    path.write_text(json.dumps(values))


def _run_record(path: Path) -> str:
    from hgkt.evaluation.records import RunRecord

    return digest(json.dumps(RunRecord.load(path).to_dict(), sort_keys=True))


def _keys(path: Path) -> str:
    from hgkt.serving.settings import read_api_keys

    return digest(read_api_keys(path))


# ---------------------------------------------------------------------- folders of data
def _write_folder(path: Path, format: str) -> None:
    from hgkt.data import write_tables, write_xlsa17

    if format == "xlsa17":
        write_xlsa17(_dataset(), path)
    else:
        write_tables(_dataset(), path, format)


def _folder(format: str) -> Kind:
    return Kind(lambda path: _write_folder(path, format), _load)


def _load(path: Path) -> str:
    from hgkt.data import load_dataset

    data = load_dataset(path)
    return digest(json.dumps(data.fingerprint()), data.train, data.test_seen, data.test_unseen)


def _text(content: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(content)


KINDS: dict[str, Kind] = {
    "model folder, closed form": _model_kind("hgkt"),
    "model folder, network": _model_kind("hgkt-network"),
    "model folder, ESZSL": _model_kind("eszsl"),
    "model folder, digests renewed": replace(_model_kind("hgkt"), mutate=_rewritten),
    "network folder, digests renewed": replace(_model_kind("hgkt-network"), mutate=_rewritten),
    "features .npy": Kind(_write_rows, _rows, suffix=".npy"),
    "features .npz": Kind(_write_rows, _rows, suffix=".npz"),
    "features .csv": Kind(_write_rows, _rows, suffix=".csv"),
    "features .parquet": Kind(_write_rows, _rows, suffix=".parquet"),
    "features .mat v5": Kind(_write_rows, _rows, suffix=".mat"),
    "features .mat v7.3": Kind(_write_mat73, _rows, suffix=".mat"),
    "own tables, Parquet": _folder("parquet"),
    "own tables, CSV": _folder("csv"),
    "own tables, .npz": _folder("npz"),
    "own tables, .npy": _folder("npy"),
    "benchmark's folder": _folder("xlsa17"),
    "class vectors .parquet": Kind(_attribute_file, _attributes, suffix=".parquet"),
    "class vectors .csv": Kind(_attribute_file, _attributes, suffix=".csv"),
    "class list": Kind(_class_list, _classes, suffix=".csv"),
    "attributes of a class": Kind(_text("0.5, 1\n0.25 [2]\n"), _vector, suffix=".txt"),
    "image .png": Kind(_image, _pixels, suffix=".png"),
    "image .jpg": Kind(_image, _pixels, suffix=".jpg"),
    "training checkpoint": Kind(_checkpoint, _resume, suffix=".safetensors"),
    "run record": Kind(_record, _run_record, suffix=".json"),
    "API keys": Kind(_text("# keys\ncorrect horse battery\n"), _keys, suffix=".txt"),
}
