"""The proxies' examples, read by the proxies themselves, and nginx in front of the service."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import time

import httpx
import numpy as np
import pytest

from hgkt.estimators import HGKTClassifier

pytestmark = pytest.mark.endure

PATH = "/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin"


def program(name):
    found = shutil.which(name, path=PATH)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


@pytest.fixture
def address(run_service, tmp_path):
    X = np.random.default_rng(0).random((8, 3))
    model = HGKTClassifier(calibration=0.0)
    model.fit(X, ["a", "b"] * 4, {"a": [0.0, 1.0], "b": [1.0, 0.0]})
    with run_service(model.save(tmp_path / "model"), allow_open=True, host="0.0.0.0") as found:
        yield found


def test_caddyfile_is_understood(deploy):
    command = [program("caddy"), "adapt", "--config", deploy / "Caddyfile"]
    done = subprocess.run([*command, "--adapter", "caddyfile"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_nginx_passes_ids_on_and_keeps_what_it_should(deploy, address, tmp_path, free_port):
    key, certificate, port = tmp_path / "key.pem", tmp_path / "cert.pem", free_port
    request = [program("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    request += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    request += ["-keyout", key, "-out", certificate]
    subprocess.run(request, check=True, capture_output=True)
    part = (deploy / "nginx.conf").read_text()
    for old, new in (
        ("server 127.0.0.1:8000", f"server {address[7:]}"),
        ("listen 443", f"listen 127.0.0.1:{port}"),
        ("models.example.org;", "localhost;"),
        ("/etc/ssl/models.example.org.pem", str(certificate)),
        ("/etc/ssl/models.example.org.key", str(key)),
    ):
        assert old in part
        part = part.replace(old, new)
    folders = "".join(
        f"{kind}_temp_path {tmp_path / kind};"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    whole = tmp_path / "nginx.conf"
    whole.write_text(
        f"daemon off; error_log {tmp_path / 'error.log'}; pid {tmp_path / 'pid'};"
        f"events {{}} http {{ access_log off; {folders} {part} }}"
    )
    command = [program("nginx"), "-c", whole, "-p", tmp_path]
    checked = subprocess.run([*command, "-t"], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    process = subprocess.Popen(command)
    try:
        trust = ssl.create_default_context(cafile=str(certificate))
        with httpx.Client(base_url=f"https://localhost:{port}", verify=trust) as client:
            ready = until_answered(client, "/ready")
            assert ready.json()["status"] == "ready"
            assert len(ready.headers["X-Request-ID"]) == 32
            assert client.get("/metrics").status_code == 403
            assert client.post("/v1/predict", content=bytes(65 * 2**20)).status_code == 413
            rows = {"features": [[0.1, 0.2, 0.3]]}
            assert client.post("/v1/predict", json=rows).status_code == 200
    finally:
        process.terminate()
        process.wait(20)


def until_answered(client, path):
    for _ in range(1200):
        try:
            return client.get(path)
        except httpx.ConnectError:
            time.sleep(0.05)
    raise AssertionError("nginx does not answer")
