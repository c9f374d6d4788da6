"""The command `hgkt`: its commands, and errors as one sentence."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import NoReturn

import typer
from rich.markup import escape

from hgkt import __version__
from hgkt.cli._output import log
from hgkt.exceptions import HGKTError

# What a plain installation leaves out, and the extra that brings it.
_EXTRAS = {"torch": "network", "ot": "transport", "matplotlib": "report", "jinja2": "report"}

app = typer.Typer(
    help="Generalized zero-shot learning: train on the classes you have, add the classes you get.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: more room for its sentences
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"hgkt {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Show the version."
    ),
) -> None:
    pass


# In the order of the help: a module, or one more command in it. Each is the function NAME_command,
# or the module's `app`.
_COMMANDS = (
    *("demo", "datasets", "evaluate.methods", "train", "evaluate", "classify", "predict"),
    *("classes", "unknown", "unknown.suggest", "predict.explain", "extract", "extract.describe"),
    *("reproduce", "export", "serve"),
)
for _place in _COMMANDS:
    _home, _, _name = _place.rpartition(".")
    _module = import_module(f"hgkt.cli.{_home or _name}")
    if hasattr(_module, f"{_name}_command"):
        app.command(_name)(getattr(_module, f"{_name}_command"))
    else:
        app.add_typer(_module.app, name=_name)


def run() -> None:
    """Run the command line; a user's mistake ends in one sentence and exit code 1."""
    try:
        app()
    except HGKTError as error:
        _fail(str(error))
    except ModuleNotFoundError as error:
        if error.name not in _EXTRAS:
            raise
        extra = _EXTRAS[error.name]
        _fail(f"this needs {error.name}; install it with pip install 'hgkt[{extra}]'")
    except KeyboardInterrupt:
        log.print("interrupted", soft_wrap=True)
        sys.exit(130)


def _fail(sentence: str) -> NoReturn:
    log.print(f"[red]error:[/red] {escape(sentence)}", soft_wrap=True)
    sys.exit(1)
