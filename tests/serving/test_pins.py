"""Workers of one service serve one model and one registry, whatever happens to their files."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from hgkt.estimators import load_model
from hgkt.serving import ServiceSettings, create_app
from hgkt.serving.database import RegistryError
from hgkt.serving.pins import OtherModelError, folder_digest, pin_model

pytestmark = [
    pytest.mark.endure,
    pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX"),
]


@pytest.fixture
def folder(digits_folder, tmp_path):
    return shutil.copytree(digits_folder, tmp_path / "digits")


def replace_model(folder):
    """Put another model in the place of one, as `model.save` does."""
    model = load_model(folder)
    model.set_params(calibration=-50.0)
    model.remove_classes(["blot"])
    model.save(folder)


def test_a_worker_that_is_started_later_serves_the_first_model(folder, digits, serve):
    rows = digits.rows("test_seen")[0][:20].tolist()

    def answers(service):
        found = {}

        def look():
            status, text, worker = service.call("POST", "/v1/predict", {"features": rows})
            assert status == 200
            found[worker] = json.loads(text)["predictions"]
            return len(found) > 1

        assert service.until(look)
        return found

    with serve("--model", folder, "--workers", 2) as service:
        before = answers(service)
        replace_model(folder)
        os.kill(min(before), signal.SIGKILL)
        assert service.until(lambda: len(set(service.ask("/ready")) - {min(before)}) == 2)
        after = answers(service)
        assert set(after) != set(before)
        assert len({json.dumps(found) for found in [*before.values(), *after.values()]}) == 1
        assert service.call("GET", "/v1/model")[1].count('"name":"digits"') == 1

        # What was kept is damaged: the new worker refuses it, the other goes on.
        shutil.rmtree(folder)
        (kept,) = kept_folders(service)
        with open(kept / "model" / "config.json", "a") as config:
            config.write(" ")
        dead = min(after)
        os.kill(dead, signal.SIGKILL)
        line = ""
        while "its place stays empty" not in line:
            line = service.process.stderr.readline()
            assert line
        assert set(service.ask("/ready")) == {max(after)}


def kept_folders(service):
    """Return the folder that a service keeps its model's files in, by the settings it was given."""
    found = []
    for folder in Path(tempfile.gettempdir()).glob("hgkt-serve-*"):
        descriptors = Path(f"/proc/{service.process.pid}/fd")
        held = {os.path.realpath(path) for path in descriptors.iterdir()}
        if str(folder / "lock") in held:
            found.append(folder)
    return found


def test_a_pin_keeps_the_files_of_a_folder(folder, tmp_path):
    pin = pin_model(folder, tmp_path / "kept")
    assert pin.digest == folder_digest(folder)
    settings = ServiceSettings(folder, pin=pin)
    assert ServiceSettings.from_environment(settings.to_environment()) == settings
    shutil.rmtree(folder)
    create_app(settings).state.served.close()
    (pin.folder / "config.json").write_text("{}")
    with pytest.raises(OtherModelError, match="is not the one that the service was started with"):
        create_app(settings)


def test_a_pin_refuses_a_folder_it_could_not_keep(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("hgkt.serving.pins._copy", lambda *_: (_ for _ in ()).throw(OSError()))
    pin = pin_model(folder, tmp_path / "kept")
    assert (pin.folder, (tmp_path / "kept").exists()) == (folder, False)
    create_app(ServiceSettings(folder, pin=pin)).state.served.close()
    replace_model(folder)
    with pytest.raises(OtherModelError):
        create_app(ServiceSettings(folder, pin=pin))


def test_a_pin_refuses_another_registry_file(folder, tmp_path):
    served = create_app(ServiceSettings(folder)).state.served
    pin = replace(pin_model(folder, tmp_path / "kept"), database=served.registry.file)
    served.close()
    create_app(ServiceSettings(folder, pin=pin)).state.served.close()
    path = tmp_path / "digits.registry.sqlite"
    path.unlink()
    with pytest.raises(RegistryError, match="was removed or replaced"):
        create_app(ServiceSettings(folder, pin=pin))
    assert not path.exists()
