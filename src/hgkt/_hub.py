"""Models of transformers and its kin: the copy that is here first, loaded without noise."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hgkt._validation import import_extra
from hgkt.exceptions import DataError, DownloadError, first_line

WEIGHTS = "model*.safetensors"
WEIGHTS_VARIABLE = "HGKT_WEIGHTS"


def find_local(source: str, *variables: str) -> Path | None:
    """Return the file or folder `source`, else the one of that name in a folder of the user's.

    Parameters
    ----------
    source : str
        A path as the user wrote it or as a record has it.
    *variables : str
        Variables of the environment that name such folders, looked into in this order.

    Returns
    -------
    Path or None
        An absolute path.
    """
    path = Path(source).expanduser()
    folders = [Path(folder) for folder in map(os.environ.get, variables) if folder and path.name]
    places = [path, *(folder / path.name for folder in folders)]
    return next((place.resolve() for place in places if place.exists()), None)


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
    DownloadError
        One sentence: there is no local copy, and it could not be fetched.
    """
    hub = import_extra("huggingface_hub", extra)
    settings = {"revision": revision, "allow_patterns": list(patterns)}
    try:
        folder = Path(hub.snapshot_download(name, local_files_only=True, **settings))
        if any(folder.glob(needed)):
            return folder
    except Exception:  # not in the cache
        pass
    try:
        return Path(hub.snapshot_download(name, **settings))
    except Exception as error:  # of the hub's client, or of one of three network libraries
        raise DownloadError(
            f"the model {name} has no local copy and could not be fetched from the hub: "
            f"{first_line(error)}"
        ) from None


@contextmanager
def loading(what: str, extra: str) -> Iterator[None]:
    """Load without bars and notes on the terminal; say in one sentence what fails."""
    logging = import_extra("transformers.utils.logging", extra)
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    except Exception as error:  # damaged files surface as errors of several libraries
        raise DataError(f"{what} cannot be loaded: {first_line(error)}") from None
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def load_pretrained(class_name: str, folder: Path, extra: str, **options: Any) -> Any:
    """Load a model of transformers: safetensors only, all weights there, no network, float32.

    Parameters
    ----------
    class_name : str
        Class of transformers.
    folder : Path
        Where its files are.
    extra : str
        Extra of hgkt that brings transformers.
    **options
        Further ones of ``from_pretrained``.
    """
    transformers = import_extra("transformers", extra)
    if not any(folder.glob(WEIGHTS)):
        raise DataError(f"{folder} has no model.safetensors; other weight formats are not read")
    options |= {"local_files_only": True, "use_safetensors": True}
    with loading(f"the model in {folder}", extra):
        model, info = getattr(transformers, class_name).from_pretrained(
            folder, output_loading_info=True, **options
        )
    missing = sorted(info["missing_keys"])
    if missing:
        raise DataError(
            f"the weights in {folder} lack {len(missing)} parameters of {class_name} "
            f"(first: {missing[0]}); random ones would make random features"
        )
    # Half-precision checkpoints are widened: features are float32 whatever the file holds.
    return model.float()
