"""What a large request leaves behind goes back to the system."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.endure

CODE = """
import psutil
from hgkt.serving.routes.bodies import memory_returned

def rss():
    return psutil.Process().memory_info().rss

def work(large):
    with memory_returned(None if large else []):
        parts = [bytes(100_000) for _ in range(2000)]
        kept = parts[-1]  # at the end of the heap: nothing below it goes back by itself
        del parts
    return kept

start = rss()
kept = work(LARGE)
print((rss() - start) / 1e6)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="of glibc")
def test_memory_of_a_large_request_is_returned():
    def left(large):
        code = CODE.replace("LARGE", str(large))
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        return float(done.stdout)

    assert left(True) < 20
    assert left(False) > 100
