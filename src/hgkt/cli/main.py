"""The command `hgkt`: one file per command, errors as one sentence."""

from __future__ import annotations

import sys
from typing import NoReturn

import typer
from rich.markup import escape

from hgkt import __version__
from hgkt.cli import classes, datasets, unknown
from hgkt.cli._output import log
from hgkt.cli.classify import classify_command
from hgkt.cli.demo import demo_command
from hgkt.cli.describe import describe_command
from hgkt.cli.evaluate import evaluate_command
from hgkt.cli.explain import explain_command
from hgkt.cli.export import export_command
from hgkt.cli.extract import extract_command
from hgkt.cli.methods import methods_command
from hgkt.cli.predict import predict_command
from hgkt.cli.reproduce import reproduce_command
from hgkt.cli.serve import serve_command
from hgkt.cli.suggest import suggest_command
from hgkt.cli.train import train_command
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


app.command("demo")(demo_command)
app.add_typer(datasets.app, name="datasets")
app.command("methods")(methods_command)
app.command("train")(train_command)
app.command("evaluate")(evaluate_command)
app.command("classify")(classify_command)
app.command("predict")(predict_command)
app.add_typer(classes.app, name="classes")
app.add_typer(unknown.app, name="unknown")
app.command("suggest")(suggest_command)
app.command("explain")(explain_command)
app.command("extract")(extract_command)
app.command("describe")(describe_command)
app.command("reproduce")(reproduce_command)
app.command("export")(export_command)
app.command("serve")(serve_command)


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
