"""The Hugging Face Hub: load a model from there, upload one; a local folder needs no extra."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hgkt._validation import import_extra
from hgkt.estimators.model_folder import load_model
from hgkt.exceptions import DownloadError, ModelFolderError, first_line

if TYPE_CHECKING:
    from hgkt.estimators.base import GZSLClassifier

_FILES = ("model.safetensors", "config.json", "classes.parquet", "README.md")


def load_pretrained(kind: type[GZSLClassifier], name_or_path: str | Path, **options: Any) -> Any:
    """Load a model of a class from a folder, or from a repository of the Hub.

    Parameters
    ----------
    kind : type
        The class that the model must be of.
    name_or_path : str or path
        A model folder, or ``"owner/name"`` on the Hub (extra ``hub``).
    **options
        ``revision``, ``token``, ``cache_dir`` and ``local_files_only`` of huggingface_hub's
        ``snapshot_download``.
    """
    path = Path(name_or_path)
    model = load_model(path if path.is_dir() else _download(str(name_or_path), options))
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
            raise DownloadError(f"cannot upload to {repo_id}: {first_line(error)}") from error
    return str(commit.commit_url)


def _download(repo_id: str, options: dict[str, Any]) -> Path:
    if repo_id.count("/") != 1 or repo_id.startswith((".", "/", "~")):
        raise ModelFolderError(
            f"{repo_id} is no folder and no name of the form 'owner/name' on the Hub"
        )
    hub = import_extra("huggingface_hub", "hub")
    try:
        # Nothing else is ever read.
        wanted = {**options, "allow_patterns": list(_FILES)}
        return Path(hub.snapshot_download(repo_id, **wanted))
    except (hub.errors.HfHubHTTPError, hub.errors.HFValidationError, OSError) as error:
        raise DownloadError(f"cannot fetch {repo_id} from the Hub: {first_line(error)}") from error
