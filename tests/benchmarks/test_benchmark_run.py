"""The door to the timings."""

from __future__ import annotations

import json
from importlib import import_module

import pytest

import run


def test_runs_what_is_asked_for(capsys):
    run.main(["add-class", "--quick", "--json"])
    shown = capsys.readouterr()
    document = json.loads(shown.out)
    assert document["name"] == "add-class"
    assert document["quick"] is True
    assert "adding one class" in shown.err
    run.main(["add-class", "--quick"])
    text = capsys.readouterr().out
    assert "by_classes" in text
    assert "median_cpu_ms" in text


def test_lists_the_choices(capsys):
    for wrong, words in (
        (["speed"], "add-class"),
        (["add-class", "--quick", "--device", "cpu"], "'add-class' has no choice of --device"),
    ):
        with pytest.raises(SystemExit):
            run.main(wrong)
        assert words in capsys.readouterr().err
    assert all(callable(import_module(name.replace("-", "_")).run) for name in run.NAMES)
