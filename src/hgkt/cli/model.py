"""`hgkt model`: sign a model folder, and verify who signed it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hgkt.cli._inputs import alone
from hgkt.cli._options import JsonOption, with_options
from hgkt.cli._output import emit, say

app = typer.Typer(help="Sign a model folder, and verify who signed it.", no_args_is_help=True)

ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="Model folder.")]


@app.command("key")
@with_options
def key_command(
    path: Annotated[Path, typer.Argument()],
    as_json: JsonOption = False,
) -> None:
    """Make a key pair: FILE signs and stays with you, FILE.pub verifies and may go anywhere.

    Example: hgkt model key release-key

    Parameters
    ----------
    path : FILE
        Where the private key goes.
    """
    from hgkt.estimators.signing import make_keys

    private, public = make_keys(path)
    sentence = f"wrote {private}, which signs: keep it to yourself; and {public}, which verifies"
    emit({"private_key": private, "public_key": public}, as_json, lambda: say(sentence))


@app.command("sign")
@with_options
def sign_command(
    model: ModelArgument,
    key: Path,
    as_json: JsonOption = False,
) -> None:
    """Sign every file of a model folder; changing or saving it again ends the signature.

    Example: hgkt model sign digits-model --key release-key

    Parameters
    ----------
    key : FILE
        The private key.
    """
    from hgkt.estimators.model_folder import check_model
    from hgkt.estimators.signing import sign_model

    with alone(check_model(model)):
        place = sign_model(model, key)
    emit({"model": model, "signature": place}, as_json, lambda: say(f"signed {model}: {place}"))


@app.command("verify")
@with_options
def verify_command(
    model: ModelArgument,
    key: Path,
    as_json: JsonOption = False,
) -> None:
    """Say whether the owner of a key signed a model folder, and nothing changed since.

    Example: hgkt model verify digits-model --key release-key.pub

    Parameters
    ----------
    key : FILE
        The public key.
    """
    from hgkt.estimators.signing import verify_model

    files = verify_model(model, key)
    sentence = f"{model} is as the owner of {key} signed it ({len(files)} files)"
    emit({"model": model, "verified": True, "sha256": files}, as_json, lambda: say(sentence))
