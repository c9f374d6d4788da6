"""`hgkt demo`, `hgkt methods`, and the help pages."""

from __future__ import annotations

import json

import pytest
from typer.main import get_command

from hgkt.cli.main import app
from hgkt.estimators.methods import METHODS

COMMANDS = {
    "demo": ["demo"],
    "methods": ["methods"],
    "train": ["train"],
    "evaluate": ["evaluate"],
    "predict": ["predict"],
    "classify": ["classify"],
    "explain": ["explain"],
    "extract": ["extract"],
    "describe": ["describe"],
    "reproduce": ["reproduce"],
    "export": ["export"],
    "serve": ["serve"],
    "classes list": ["classes", "list"],
    "classes add": ["classes", "add"],
    "classes remove": ["classes", "remove"],
    "classes check": ["classes", "check"],
    "unknown list": ["unknown", "list"],
    "unknown groups": ["unknown", "groups"],
    "unknown make": ["unknown", "make"],
    "suggest": ["suggest"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_an_example_and_json(hgkt, name):
    text = hgkt(*COMMANDS[name], "--help").stdout
    assert f"hgkt {name}" in text.split("Example:")[1]
    assert ("--json" in text) == (name != "serve")  # a service yields no result


@pytest.mark.parametrize("name", sorted({name.split()[0] for name in COMMANDS} - {"serve"}))
def test_a_command_has_few_options_that_are_called_alike(name):
    command = get_command(app).commands[name]  # type: ignore[attr-defined]
    for each in getattr(command, "commands", {name: command}).values():
        assert len(each.params) <= 20, each.name
        options = {option for parameter in each.params for option in parameter.opts}
        assert not options & {"--top-k", "--n-jobs", "--gpu", "--random-state"}


def test_help_is_wide_and_names_no_type_for_flags(hgkt):
    text = hgkt("train", "--help").stdout
    assert "<bool>" not in text
    first = [line.split()[0] for line in text.splitlines() if line.startswith("  --")][:4]
    assert first == ["--images", "--texts", "--data", "--classes,"]


def test_every_option_says_what_it_is():
    todo = [get_command(app)]
    while todo:
        command = todo.pop()
        todo += getattr(command, "commands", {}).values()
        for parameter in command.params:
            assert parameter.help, f"{command.name} {parameter.opts}"  # type: ignore[attr-defined]


def test_every_command_is_listed(hgkt):
    names = set(get_command(app).commands)  # type: ignore[attr-defined]
    assert names == {name.split()[0] for name in COMMANDS} | {"datasets"}


def test_demo_hides_a_digit_then_recognises_it(hgkt):
    document = json.loads(hgkt("demo", "--json").stdout)
    hidden = document["hidden"]
    assert len(hidden["before"]) == len(hidden["after"]) == 10
    assert "six" not in hidden["before"]
    assert hidden["n_right"] >= 7
    assert hidden["accuracy"] > 70
    seen = {"zero", "one", "three", "four", "five", "seven", "eight", "nine"}
    assert {source["label"] for source in hidden["sources"]} <= seen
    assert document["results"]["H"] > 60


def test_demo_says_what_happened(hgkt):
    text = hgkt("demo").stdout
    for word in ("AUSUC", "never shown: two, six", "after adding 'six'", "it was made from"):
        assert word in text


def test_methods_shows_the_registry(hgkt):
    entries = json.loads(hgkt("methods", "--json").stdout)["methods"]
    assert [entry["name"] for entry in entries] == list(METHODS)
    assert all(entry["summary"] and entry["family"] for entry in entries)
    assert "eszsl" in hgkt("methods").stdout


def test_methods_need_no_more_than_two_lines_each(hgkt):
    lines = hgkt("methods").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 1 + 2 * len(METHODS)
