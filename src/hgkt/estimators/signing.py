"""Signed model folders: who made a model, and that nothing in it was changed since.

Signatures are those of the OpenSSF's `model-signing` (a Sigstore bundle with an in-toto statement
over every file), made with a plain ECDSA key; its own command line verifies them too.
"""

from __future__ import annotations

import base64
import os
import tempfile
from pathlib import Path
from typing import Any

from hgkt._files import file_sha256, json_object, reading, write_file
from hgkt._validation import import_extra
from hgkt.estimators.model_folder import CONFIG, check_model
from hgkt.exceptions import ModelFolderError, first_line

SIGNATURE = "model.sig"
_KEYS = "an ECDSA key (P-256, P-384 or P-521) in PEM, as `hgkt model key` makes it"


def make_keys(path: str | Path) -> tuple[Path, Path]:
    """Make a key pair: a private key that signs, and a public one that verifies.

    Parameters
    ----------
    path : path
        Where the private key goes, for its owner's eyes only; the public one stands beside it,
        with ``.pub`` at the end. Neither may be there.

    Returns
    -------
    private, public : Path
    """
    import_extra("model_signing", "sign")
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import ec

    private, public = Path(path), Path(f"{path}.pub")
    for place in (private, public):
        if place.exists():
            raise ModelFolderError(f"{place} exists; a key is never overwritten")
    key = ec.generate_private_key(ec.SECP256R1())
    pem, plain = form.Encoding.PEM, form.NoEncryption()
    secret = key.private_bytes(pem, form.PrivateFormat.PKCS8, plain)
    shown = key.public_key().public_bytes(pem, form.PublicFormat.SubjectPublicKeyInfo)
    write_file(private, secret, ModelFolderError, mode=0o600)
    write_file(public, shown, ModelFolderError)
    return private, public


def sign_model(path: str | Path, key: str | Path) -> Path:
    """Sign a model folder; any change of a file ends it, and so does saving the model again.

    Parameters
    ----------
    path : path
        The folder.
    key : path
        The private key.

    Returns
    -------
    Path
        The signature, ``model.sig`` in the folder.
    """
    signing = import_extra("model_signing.signing", "sign")
    folder = check_model(path)
    with reading(key, f"a private key; {_KEYS} is expected", ModelFolderError):
        config = signing.Config().use_elliptic_key_signer(private_key=Path(key))
    with tempfile.TemporaryDirectory() as scratch, reading(path, "a model", ModelFolderError):
        made = Path(scratch) / SIGNATURE
        config.set_hashing_config(_hashing(folder)).sign(folder, made)
        return write_file(folder / SIGNATURE, made.read_bytes(), ModelFolderError)


def verify_model(path: str | Path, key: str | Path) -> dict[str, str]:
    """Refuse a model folder that the owner of a key did not sign, or that was changed since.

    Parameters
    ----------
    path : path
        The folder.
    key : path
        The public key.

    Returns
    -------
    dict of str to str
        The SHA-256 of every file, as it was signed.
    """
    verifying = import_extra("model_signing.verifying", "sign")
    folder = check_model(path)
    place = folder / SIGNATURE
    if not place.is_file():
        raise ModelFolderError(f"{path} is not signed: it has no {SIGNATURE}")
    with reading(key, f"a public key; {_KEYS} is expected", ModelFolderError):
        config = verifying.Config().use_elliptic_key_verifier(public_key=Path(key))
    with reading(place, "a signature", ModelFolderError):
        data = place.read_bytes()
        digests = _signed_digests(data, place)
    # What is verified and what was read above are the same bytes.
    with tempfile.TemporaryDirectory() as scratch:
        copy = write_file(Path(scratch) / SIGNATURE, data)
        try:
            config.set_hashing_config(_hashing(folder)).verify(folder, copy)
        except Exception as error:  # of cryptography, of sigstore, or plain
            reason = _difference(folder, digests, error)
            raise ModelFolderError(f"{path} is not what was signed: {reason}") from error
    if CONFIG not in digests:
        raise ModelFolderError(f"{path} is not what was signed: its signature leaves {CONFIG} out")
    return digests


def _hashing(folder: Path) -> Any:
    from model_signing import hashing

    config = hashing.Config().use_file_serialization(hashing_algorithm="sha256")
    return config.set_ignored_paths(paths=[folder / SIGNATURE], ignore_git_paths=False)


def _signed_digests(data: bytes, place: Path) -> dict[str, str]:
    """Return the digests that a signature speaks of, whether or not it is true."""
    envelope = json_object(data, place, ModelFolderError)["dsseEnvelope"]
    statement = json_object(base64.b64decode(envelope["payload"]), place, ModelFolderError)
    return {
        str(resource["name"]): str(resource["digest"])
        for resource in statement["predicate"]["resources"]
        if resource["algorithm"] == "sha256"
    }


def _difference(folder: Path, digests: dict[str, str], error: Exception) -> str:
    """Say what differs from what was signed, or that the signature itself is another's."""
    if not str(error).startswith("Signature mismatch"):
        return f"the signature was not made with this key ({type(error).__name__})"
    there = {
        os.path.relpath(file, folder): file
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file.name != SIGNATURE
    }
    for name in digests:
        if name not in there:
            return f"{name} is missing"
        if file_sha256(there[name]) != digests[name]:
            return f"{name} was changed"
    added = next((name for name in there if name not in digests), None)
    return f"{added} was added" if added else first_line(error)
