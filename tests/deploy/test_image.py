"""Every step of the Dockerfile, run in a clean folder where there is no container engine."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytest.importorskip("dockerfile_parse", reason="the extra test brings it")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_step_of_the_dockerfile_runs_and_its_service_is_healthy():
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    # Not below pytest's folder, which the image's user may not enter.
    with tempfile.TemporaryDirectory(prefix="hgkt-image-", ignore_cleanup_errors=True) as folder:
        command = [sys.executable, "tools/rehearse_image.py", "deploy/Dockerfile", "--work", folder]
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1700
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "became healthy, and ended when it was told to" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
