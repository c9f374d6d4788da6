"""What is asked of huggingface_hub, word by word; test_pretrained has the whole way."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from hgkt import HGKTClassifier
from hgkt.estimators import METHODS
from hgkt.exceptions import DownloadError, MissingExtraError, ModelFolderError

X = np.array([[3.0, 1.0], [3.0, 1.2], [1.0, 3.0], [1.1, 3.0]])
Y = ["cat", "cat", "dog", "dog"]
TABLE = {"cat": [1.0, 0.0], "dog": [0.0, 1.0]}
FILES = ["model.safetensors", "config.json", "classes.parquet", "README.md"]


class HubError(Exception):
    """An answer of the Hub that is no success."""


class FakeHub:
    """Remembers what it was asked for; `error` is raised instead of an answer."""

    asked: ClassVar[dict[str, Any]]
    error: ClassVar[Exception | None]
    folder: ClassVar[Path]
    errors = SimpleNamespace(HfHubHTTPError=HubError, HFValidationError=ValueError)

    class HfApi:
        """The part of the interface that an upload takes."""

        def __init__(self, token: Any = "unasked") -> None:
            FakeHub.asked["token"] = token

        def create_repo(self, repo_id: str, **options: Any) -> Any:
            if FakeHub.error is not None:
                raise FakeHub.error
            FakeHub.asked["create"] = (repo_id, options)
            return SimpleNamespace(repo_id=f"me/{repo_id}")

        def upload_folder(self, **options: Any) -> Any:
            options["names"] = sorted(path.name for path in options.pop("folder_path").iterdir())
            FakeHub.asked["upload"] = options
            return SimpleNamespace(commit_url="https://hub/commit/1")

    @staticmethod
    def snapshot_download(repo_id: str, **options: Any) -> str:
        if FakeHub.error is not None:
            raise FakeHub.error
        FakeHub.asked["download"] = (repo_id, options)
        return str(FakeHub.folder)


@pytest.fixture
def model() -> HGKTClassifier:
    return HGKTClassifier().fit(X, Y, class_attributes=TABLE)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, model: HGKTClassifier) -> type[FakeHub]:
    FakeHub.asked, FakeHub.error = {}, None
    FakeHub.folder = model.save(tmp_path / "saved")
    monkeypatch.setitem(sys.modules, "huggingface_hub", FakeHub)
    return FakeHub


def test_an_upload_asks_for_what_it_was_told(hub, model) -> None:
    address = model.push_to_hub("birds", private=True, token="hf_x", commit_message="First")
    assert address == "https://hub/commit/1"
    assert hub.asked == {
        "token": "hf_x",
        "create": ("birds", {"private": True, "exist_ok": True}),
        "upload": {"repo_id": "me/birds", "commit_message": "First", "names": sorted(FILES)},
    }
    model.push_to_hub("birds")
    assert hub.asked["token"] is None
    assert hub.asked["create"][1]["private"] is None
    assert hub.asked["upload"]["commit_message"] == "Upload hgkt model"


def test_a_download_asks_for_what_it_was_told_and_for_no_other_file(hub, model) -> None:
    loaded = HGKTClassifier.from_pretrained(
        "me/birds", revision="v1", token="hf_x", cache_dir="here", local_files_only=True
    )
    np.testing.assert_array_equal(loaded.score_classes(X), model.score_classes(X))
    options = {"revision": "v1", "token": "hf_x", "cache_dir": "here", "local_files_only": True}
    wanted = {"allow_patterns": FILES}
    assert hub.asked["download"] == ("me/birds", {**options, **wanted})
    HGKTClassifier.from_pretrained("me/birds")
    plain = {"revision": None, "token": None, "cache_dir": None, "local_files_only": False}
    assert hub.asked["download"][1] == {**plain, **wanted}


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (HubError("\n  Not found  \nsee the docs"), "Not found"),
        (ValueError("bad name"), "bad name"),
        (OSError(), "OSError"),
    ],
)
def test_an_error_of_the_hub_is_one_sentence(hub, model, error: Exception, told: str) -> None:
    hub.error = error
    with pytest.raises(DownloadError) as refused:
        HGKTClassifier.from_pretrained("me/birds")
    assert str(refused.value) == f"cannot fetch me/birds from the Hub: {told}"
    with pytest.raises(DownloadError) as refused:
        model.push_to_hub("birds")
    assert str(refused.value) == f"cannot upload to birds: {told}"


@pytest.mark.parametrize("name", ["birds", "a/b/c", "./birds", "/birds", "~/birds"])
def test_what_is_no_name_is_not_asked_for(hub, name: str) -> None:
    with pytest.raises(ModelFolderError) as refused:
        HGKTClassifier.from_pretrained(name)
    assert str(refused.value) == (
        f"{name} is no folder and no name of the form 'owner/name' on the Hub"
    )
    assert hub.asked == {}


def test_a_model_of_another_kind_is_refused(hub) -> None:
    ridge = METHODS.load("ridge")
    with pytest.raises(ModelFolderError) as refused:
        ridge.from_pretrained(hub.folder)
    assert str(refused.value) == (
        f"{hub.folder} holds a HGKTClassifier, not a {ridge.__name__}; use hgkt.load_model"
    )


def test_without_the_package_the_extra_is_named(monkeypatch, model) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    for call in (
        lambda: HGKTClassifier.from_pretrained("me/birds"),
        lambda: model.push_to_hub("birds"),
    ):
        with pytest.raises(MissingExtraError) as refused:
            call()
        assert str(refused.value) == (
            "this needs the package 'huggingface_hub'; install it with pip install 'hgkt[hub]'"
        )
