"""The Hugging Face Hub: load a model from there, upload one; a local folder needs no extra."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hgkt._validation import import_extra
from hgkt.estimators.model_folder import load_model
from hgkt.exceptions import DownloadError, ModelFolderError

if TYPE_CHECKING:
    from hgkt.estimators.base import GZSLClassifier

_FILES = ("model.safetensors", "config.json", "classes.parquet", "README.md")


def load_pretrained(
    kind: type[GZSLClassifier],
    name_or_path: str | Path,
    *,
    revision: str | None = None,
    token: str | bool | None = None,
    cache_dir: str | Path | None = None,
    local_files_only: bool = False,
) -> Any:
    """Load a model of a class from a folder, or from a repository of the Hub.

    Parameters
    ----------
    kind : type
        The class that the model must be of.
    name_or_path : str or path
        A model folder, or ``"owner/name"`` on the Hub (extra ``hub``).
    revision : str, optional
        Branch, tag or commit on the Hub.
    token : str or bool, optional
        Access token; by default the one that is stored on this machine.
    cache_dir : path, optional
        Where downloads are kept.
    local_files_only : bool
        Whether to look at earlier downloads only.
    """
    path = Path(name_or_path)
    if not path.is_dir():
        path = _download(str(name_or_path), revision, token, cache_dir, local_files_only)
    model = load_model(path)
    if not isinstance(model, kind):
        raise ModelFolderError(
            f"{name_or_path} holds a {type(model).__name__}, not a {kind.__name__}; "
            "use hgkt.load_model"
        )
    return model


def push_model(
    model: GZSLClassifier,
    repo_id: str,
    *,
    private: bool | None = None,
    token: str | bool | None = None,
    commit_message: str = "Upload hgkt model",
) -> str:
    """Upload a model folder to the Hub and return the address of the commit.

    Parameters
    ----------
    model : GZSLClassifier
    repo_id : str
        ``"owner/name"``; the repository is made if needed.
    private : bool, optional
        Whether a new repository is private; by default the owner's setting.
    token : str or bool, optional
        Access token; by default the one that is stored on this machine.
    commit_message : str
        Message of the commit.
    """
    hub = import_extra("huggingface_hub", "hub")
    api = hub.HfApi(token=token)
    with tempfile.TemporaryDirectory() as scratch:
        folder = model.save(Path(scratch) / "model")
        try:
            repo = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
            commit = api.upload_folder(
                repo_id=repo, folder_path=folder, commit_message=commit_message
            )
        except (hub.errors.HfHubHTTPError, hub.errors.HFValidationError, OSError) as error:
            raise DownloadError(f"cannot upload to {repo_id}: {_first_line(error)}") from error
    return str(commit.commit_url)


def _download(
    repo_id: str,
    revision: str | None,
    token: str | bool | None,
    cache_dir: str | Path | None,
    local_files_only: bool,
) -> Path:
    if repo_id.count("/") != 1 or repo_id.startswith((".", "/", "~")):
        raise ModelFolderError(
            f"{repo_id} is no folder and no name of the form 'owner/name' on the Hub"
        )
    hub = import_extra("huggingface_hub", "hub")
    try:
        folder = hub.snapshot_download(
            repo_id,
            revision=revision,
            token=token,
            cache_dir=cache_dir,
            local_files_only=local_files_only,
            allow_patterns=list(_FILES),  # nothing else is ever read
        )
    except (hub.errors.HfHubHTTPError, hub.errors.HFValidationError, OSError) as error:
        raise DownloadError(f"cannot fetch {repo_id} from the Hub: {_first_line(error)}") from error
    return Path(folder)


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
