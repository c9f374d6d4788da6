"""save_pretrained, from_pretrained and push_to_hub, against a hub that runs in the test."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import ClassVar
from urllib.parse import urlsplit

import numpy as np
import pytest

from hgkt import HGKTClassifier, load_dataset
from hgkt.estimators import METHODS
from hgkt.exceptions import DownloadError, ModelFolderError

DATA = load_dataset("digits")
X, Y = DATA.rows("train")
SEEN = DATA.attributes_of(DATA.seen_classes)


class Hub(BaseHTTPRequestHandler):
    """The few addresses of the Hub's HTTP interface that an upload and a download use."""

    files: ClassVar[dict[str, bytes]] = {}
    calls: ClassVar[list[str]] = []
    commit = "a" * 40

    def log_message(self, *args: object) -> None:
        pass

    def reply(self, body: object, status: int = 200, headers: dict[str, str] | None = None) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        path = urlsplit(self.path).path
        self.calls.append(path)
        if path == "/api/repos/create":
            name = json.loads(body)["name"]
            self.reply({"url": f"http://{self.headers['Host']}/me/{name}", "name": f"me/{name}"})
        elif path.endswith("/preupload/main"):
            files = json.loads(body)["files"]
            self.reply({"files": [
                {"path": f["path"], "uploadMode": "regular", "shouldIgnore": False} for f in files
            ]})  # fmt: skip
        elif path.endswith("/commit/main"):
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    content = base64.b64decode(line["value"]["content"])
                    self.files[line["value"]["path"]] = content
            url = f"http://{self.headers['Host']}/me/birds/commit/{self.commit}"
            self.reply({"commitOid": self.commit, "commitUrl": url, "success": True})
        else:
            self.reply({"ok": True})

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        self.calls.append(path)
        if path.startswith("/api/models/me/birds/revision/"):
            siblings = [{"rfilename": name} for name in self.files]
            self.reply({"id": "me/birds", "sha": self.commit, "siblings": siblings})
        elif path.startswith("/api/models/me/birds/tree/"):
            self.reply([
                {"type": "file", "path": name, "size": len(data), "oid": "b" * 40}
                for name, data in self.files.items()
            ])  # fmt: skip
        elif path.startswith("/me/birds/resolve/") and path.rsplit("/", 1)[1] in self.files:
            data = self.files[path.rsplit("/", 1)[1]]
            digest = hashlib.sha1(data).hexdigest()
            self.reply(data, headers={"ETag": f'"{digest}"', "X-Repo-Commit": self.commit})
        else:
            error = {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"}
            self.reply({"error": "Repository not found"}, 404, error)

    def do_HEAD(self) -> None:
        self.do_GET()


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A hub on this machine; huggingface_hub reads its address in a process of its own."""
    Hub.files, Hub.calls = {}, []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "1")
    monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    yield Hub
    server.shutdown()


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_save_pretrained_from_pretrained_round_trip(tmp_path):
    model = HGKTClassifier(calibration=0.1).fit(X, Y, class_attributes=SEEN)
    model.save_pretrained(tmp_path / "model", data="digits")
    loaded = HGKTClassifier.from_pretrained(tmp_path / "model")
    assert isinstance(loaded, HGKTClassifier)
    assert loaded.about_["data"] == "digits"
    np.testing.assert_allclose(loaded.score_classes(X[:9]), model.score_classes(X[:9]), atol=1e-6)


def test_from_pretrained_keeps_a_calibration(tmp_path):
    ridge = METHODS.load("ridge")
    ridge(calibration=0.4).fit(X, Y, class_attributes=SEEN).save_pretrained(tmp_path / "model")
    loaded = ridge.from_pretrained(tmp_path / "model")
    assert loaded.calibration == 0.4
    with pytest.raises(ModelFolderError, match="not a HGKTClassifier"):
        HGKTClassifier.from_pretrained(tmp_path / "model")


def test_from_pretrained_refuses_what_is_neither_folder_nor_name(tmp_path):
    with pytest.raises(ModelFolderError, match="no folder and no name"):
        HGKTClassifier.from_pretrained(tmp_path / "nowhere")


@pytest.mark.endure
def test_push_to_hub_and_back(hub, tmp_path):
    model = HGKTClassifier().fit(X, Y, class_attributes=SEEN)
    model.save(tmp_path / "model")
    pushed = python(
        "import hgkt\n"
        f"model = hgkt.load_model({str(tmp_path / 'model')!r})\n"
        "print(model.push_to_hub('birds', token='hf_x', private=True))\n"
    )
    assert pushed.returncode == 0, pushed.stderr
    assert "/me/birds/commit/" in pushed.stdout
    names = {"model.safetensors", "config.json", "classes.parquet", "README.md"}
    assert set(hub.files) == names
    hub.files["evil.py"] = b"raise SystemExit('ran')"
    code = (
        "import hgkt\n"
        "model = hgkt.HGKTClassifier.from_pretrained('me/birds'{})\n"
        "print(model.score_classes(hgkt.load_dataset('digits').rows('train')[0][:3]).tolist())\n"
    )
    fetched = python(code.format(""))
    assert fetched.returncode == 0, fetched.stderr
    np.testing.assert_allclose(json.loads(fetched.stdout), model.score_classes(X[:3]), atol=1e-6)
    assert not any("evil" in call for call in hub.calls)
    hub.files.clear()
    again = python(code.format(", local_files_only=True"))
    assert again.stdout == fetched.stdout, again.stderr


@pytest.mark.endure
def test_from_pretrained_unknown_repository_is_one_sentence(hub):
    result = python(
        "import hgkt\n"
        "try:\n"
        "    hgkt.HGKTClassifier.from_pretrained('me/nothing')\n"
        "except hgkt.HGKTError as error:\n"
        "    print(type(error).__name__, str(error).count(chr(10)), error)\n"
    )
    assert result.stdout.startswith("DownloadError 0 cannot fetch me/nothing"), result.stderr
    assert DownloadError.__name__ in result.stdout
