"""Signed model folders: whose they are, and that every change shows."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hgkt import HGKTClassifier, load_model
from hgkt.estimators.signing import make_keys, sign_model, verify_model
from hgkt.exceptions import ModelFolderError

pytest.importorskip("model_signing")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_keys(tmp_path_factory.mktemp("keys") / "key")


@pytest.fixture
def signed(tmp_path: Path, keys: tuple[Path, Path]) -> Path:
    X = np.random.default_rng(0).random((20, 3))
    table = {"a": [1.0, 0.0], "b": [0.0, 1.0]}
    model = HGKTClassifier().fit(X, np.repeat(["a", "b"], 10), table)
    path = model.save(tmp_path / "model")
    assert sign_model(path, keys[0]) == path / "model.sig"
    return path


def refusal(path: Path, key: Path) -> str:
    with pytest.raises(ModelFolderError) as refused:
        load_model(path, verify_key=key)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_a_signed_model_loads_wherever_it_stands(
    signed: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    moved = shutil.move(signed, tmp_path / "elsewhere")
    digests = verify_model(moved, keys[1])
    assert set(digests) == {"README.md", "classes.parquet", "config.json", "model.safetensors"}
    assert load_model(moved, verify_key=keys[1]).classes_.tolist() == ["a", "b"]


def test_every_change_shows(signed: Path, keys: tuple[Path, Path]) -> None:
    start = f"{signed} is not what was signed: "
    for name in ("config.json", "model.safetensors", "classes.parquet", "README.md"):
        data = (signed / name).read_bytes()
        (signed / name).write_bytes(data + b"\n")
        assert refusal(signed, keys[1]) == f"{start}{name} was changed"
        (signed / name).write_bytes(data)
    card = (signed / "README.md").read_bytes()
    (signed / "README.md").unlink()
    assert refusal(signed, keys[1]) == f"{start}README.md is missing"
    (signed / "README.md").write_bytes(card)
    for extra in ("notes.txt", ".gitignore"):
        (signed / extra).write_text("")
        assert refusal(signed, keys[1]) == f"{start}{extra} was added"
        (signed / extra).unlink()
    assert load_model(signed, verify_key=keys[1]) is not None


def test_another_key_and_no_signature_are_refused(
    signed: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    _, other = make_keys(tmp_path / "other")
    assert "was not made with this key" in refusal(signed, other)
    # A class more is another model: its signature is gone.
    load_model(signed).add_classes({"c": [0.5, 0.5]}).save(signed)
    assert refusal(signed, keys[1]) == f"{signed} is not signed: it has no model.sig"
    assert len(load_model(signed).classes_) == 3


@pytest.mark.parametrize("text", ["", "{}", "[" * 10**5, '{"dsseEnvelope": {"payload": "e30="}}'])
def test_a_damaged_signature_is_one_sentence(
    signed: Path, keys: tuple[Path, Path], text: str
) -> None:
    (signed / "model.sig").write_text(text)
    assert "model.sig" in refusal(signed, keys[1])


def test_a_changed_signature_is_not_believed(signed: Path, keys: tuple[Path, Path]) -> None:
    bundle = json.loads((signed / "model.sig").read_text())
    other = json.loads(json.dumps(bundle))
    signature = other["dsseEnvelope"]["signatures"][0]
    signature["sig"] = signature["sig"][:20] + "AAAA" + signature["sig"][24:]
    (signed / "model.sig").write_text(json.dumps(other))
    assert "was not made with this key" in refusal(signed, keys[1])


def test_keys_that_are_none_are_one_sentence(
    signed: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    assert "a public key" in refusal(signed, keys[0])
    assert refusal(signed, tmp_path / "nothing") == f"{tmp_path / 'nothing'} does not exist"
    (tmp_path / "text").write_text("not a key")
    assert "ECDSA key" in refusal(signed, tmp_path / "text")
    with pytest.raises(ModelFolderError, match="a private key; an ECDSA key"):
        sign_model(signed, keys[1])
    with pytest.raises(ModelFolderError, match="exists; a key is never overwritten"):
        make_keys(keys[0])
    assert keys[0].stat().st_mode & 0o777 == 0o600


def test_the_config_that_is_read_is_the_one_that_was_signed(
    signed: Path, keys: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody exchanges the folder between verifying and reading."""
    import hgkt.estimators.signing as signing

    verify = signing.verify_model

    def slow(path: Path, key: Path) -> dict[str, str]:
        digests = verify(path, key)
        load_model(path).add_classes({"c": [0.5, 0.5]}).save(path)
        return digests

    monkeypatch.setattr(signing, "verify_model", slow)
    assert refusal(signed, keys[1]) == f"{signed / 'config.json'} is not the file that was signed"


@pytest.mark.endure
def test_the_signature_is_one_of_model_signing(signed: Path, keys: tuple[Path, Path]) -> None:
    command = [sys.executable, "-m", "model_signing", "verify", "key", "--signature",
               str(signed / "model.sig"), "--public_key", str(keys[1]), str(signed)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
