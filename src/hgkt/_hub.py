"""Models of transformers and its kin: the copy that is here first, loaded without noise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hgkt._validation import import_extra


def hub_folder(
    name: str, patterns: Sequence[str], needed: str, extra: str, revision: str | None = None
) -> Path:
    """Return the folder of a model of the Hugging Face hub.

    The local copy comes first: a model that is there needs no network and does not change unasked.

    Parameters
    ----------
    name : str
        "owner/model".
    patterns : sequence of str
        The files to fetch.
    needed : str
        Pattern of the file without which a local copy is not one.
    extra : str
        Extra of hgkt that brings the hub's client.
    revision : str, optional
        Version of the model.

    Returns
    -------
    Path

    Raises
    ------
    Exception
        Whatever the hub's client, or one of three network libraries, says.
    """
    hub = import_extra("huggingface_hub", extra)
    settings = {"revision": revision, "allow_patterns": list(patterns)}
    try:
        folder = Path(hub.snapshot_download(name, local_files_only=True, **settings))
        if any(folder.glob(needed)):
            return folder
    except Exception:  # not in the cache
        pass
    return Path(hub.snapshot_download(name, **settings))


@contextmanager
def quiet_transformers(extra: str) -> Iterator[None]:
    """Keep loading bars and notes about unused parameters off the terminal."""
    logging = import_extra("transformers.utils.logging", extra)
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
