"""Fixtures of the command line's tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hgkt.cli.main import app
from hgkt.data import load_dataset
from hgkt.estimators import HGKTClassifier


@pytest.fixture
def hgkt() -> Callable[..., Any]:
    """Run `hgkt` in this process; an error of the user's is raised."""

    def call(*arguments: object) -> Any:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return call


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    """The closed form fitted on the eight seen digits, as `hgkt train` would save it."""
    data = load_dataset("digits")
    X, y = data.rows("train")
    model = HGKTClassifier(calibration=0.3, device="cpu")
    model.fit(X, y, class_attributes=data.attributes_of(data.seen_classes))
    return model.save(
        tmp_path / "model", data="digits", attribute_names=list(data.attribute_names or ())
    )
