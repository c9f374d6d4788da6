"""`hgkt serve` as a user meets it."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

import pytest

from hgkt.exceptions import DataError, ModelFolderError

HGKT = [sys.executable, "-m", "hgkt"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "300"}


def test_serve_refuses_to_be_open_beyond_this_machine(hgkt, model_folder):
    with pytest.raises(DataError, match="give --api-key-file, or say --allow-open"):
        hgkt("serve", "--model", model_folder, "--host", "0.0.0.0")


def test_serve_says_in_one_sentence_that_the_port_is_taken(hgkt, model_folder):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(DataError, match=f"cannot listen at 127.0.0.1, port {port}: Address"):
            hgkt("serve", "--model", model_folder, "--port", port)
    with pytest.raises(DataError, match="cannot listen at no such host"):
        hgkt("serve", "--model", model_folder, "--host", "no such host", "--allow-open")


def test_serve_checks_model_and_keys_before_it_listens(hgkt, model_folder, tmp_path):
    with pytest.raises(ModelFolderError):
        hgkt("serve", "--model", tmp_path / "nothing", "--port", 0)
    keys = tmp_path / "keys"
    keys.write_text("short\n")
    with pytest.raises(DataError, match="too short"):
        hgkt("serve", "--model", model_folder, "--api-key-file", keys)


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
@pytest.mark.parametrize(
    "sign", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.smoke)]
)
@pytest.mark.endure
def test_serve_answers_until_it_is_told_to_stop(model_folder, tmp_path, sign):
    keys = tmp_path / "keys"
    keys.write_text("# for the test\na key of some length\n")
    keys.chmod(0o600)
    database = f"sqlite:///{tmp_path / 'own.sqlite'}"
    command = [
        *HGKT,
        "serve",
        "--model",
        model_folder,
        "--port",
        "0",
        "--grace",
        "0.2",
        "--access-log",
    ]
    command += ["--api-key-file", keys, "--data", "digits", "--database", database]
    process = subprocess.Popen(
        list(map(str, command)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    try:
        line = process.stdout.readline().strip()
        found = re.fullmatch(
            r"serving .*model \(8 classes, 0 of them added\) at http://127\.0\.0\.1:(\d+)", line
        )
        assert found, line + process.stderr.read()
        connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=30)
        for _ in range(1200):
            try:
                connection.request("GET", "/v1/model")
                break
            except ConnectionRefusedError:
                connection.close()
                time.sleep(0.05)
        card = json.loads(connection.getresponse().read())
        assert card["needs_key"] is True
        assert card["n_samples"] == 60
        process.send_signal(sign)
        _, errors = process.communicate(timeout=30)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    assert process.returncode == 0, errors
    assert "Traceback" not in errors
    assert "GET /v1/model" in errors
    assert "a key of some length" not in errors
    assert (tmp_path / "own.sqlite").is_file()


def test_images_may_be_as_large_as_for_the_commands():
    from hgkt.serving.settings import ServiceSettings
    from hgkt.vision.images import MAX_PIXELS

    assert ServiceSettings.model_fields["max_image_pixels"].default == MAX_PIXELS
