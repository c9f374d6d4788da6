"""The commands of README and docs exist, with the options they are shown with."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from hgkt.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
SHELL = ("bash", "console", "sh", "")
_ENDS = re.compile(r"\s(?:&&|\|\||[|;&>])\s")
# Pages whose commands are run as they stand: the embedded digits are all they need.
RUN = ("start.md", "tutorials/classes.md")


def command_lines(block):
    """Yield the commands of a block, continued lines joined; what they print is left out."""
    text = block.text.replace("\\\n", " ")
    prompted = re.findall(r"^\$ (.*)$", text, re.M)
    for line in prompted or ([] if block.language == "console" else text.splitlines()):
        for part in _ENDS.split(re.sub(r"\s#\s.*$", "", line)):
            yield re.sub(r"^(?:\w+=\S+\s+)*", "", part.strip())


def commands(blocks, name):
    shells = [block for block in blocks if block.language in SHELL]
    lines = [line for block in shells for line in command_lines(block)]
    return [shlex.split(line, comments=True) for line in lines if line.startswith(f"{name} ")]


def parse(command, arguments):
    """Follow sub-commands, let the last one's parser read the options, and return that one."""
    while (children := getattr(command, "commands", None)) and arguments:
        if arguments[0].startswith("-"):
            break
        assert arguments[0] in children, f"there is no command {arguments[0]!r}"
        command, arguments = children[arguments[0]], arguments[1:]
    command.make_parser(command.context_class(command)).parse_args(args=list(arguments))
    return command


def test_hgkt_commands_have_the_options_shown(shell_page, blocks_of):
    root = get_command(app)
    for _, *arguments in commands(blocks_of(shell_page), "hgkt"):
        named = [word for word in arguments[:2] if not word.startswith("-")]
        assert parse(root, arguments).name in (named or [root.name])


def test_make_targets_and_scripts_are_there(shell_page, blocks_of):
    blocks = blocks_of(shell_page)
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.M))
    for _, target, *_ in commands(blocks, "make"):
        assert target in targets
    for _, script, *_ in commands(blocks, "python"):
        assert script.startswith("-") or (ROOT / script).is_file()


@pytest.mark.parametrize("page", RUN)
def test_commands_that_need_nothing_run(page, blocks_of, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _, *arguments in commands(blocks_of(ROOT / "docs" / page), "hgkt"):
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, f"hgkt {shlex.join(arguments)}: {done.output}"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [(["trian"], "no command 'trian'"), (["train", "--dta", "x"], "No such option: --dta")],
)
def test_a_command_that_does_not_exist_is_noticed(arguments, problem):
    with pytest.raises(Exception, match=problem):
        parse(get_command(app), arguments)
