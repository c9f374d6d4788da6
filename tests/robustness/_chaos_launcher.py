"""Starts `hgkt serve` again and again without importing everything anew; see `chaos.py`.

A line on stdin is a command as JSON: the words after `hgkt`, and the file for stderr. The answer on
stdout is the number of the process that runs it, forked from this one, which has one thread.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

import hgkt.cli.main
import hgkt.serving.app
import hgkt.serving.server


def launch(command: dict[str, Any]) -> int:
    """Fork a process that runs a command of hgkt."""
    number = os.fork()
    if number:
        return number
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDWR)
    log = os.open(command["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for source, target in ((nothing, 0), (nothing, 1), (log, 2)):
        os.dup2(source, target)
    sys.argv = ["hgkt", *command["words"]]
    try:
        hgkt.cli.main.run()
    except SystemExit as error:
        os._exit(error.code if isinstance(error.code, int) else 1)
    os._exit(0)


def main() -> None:
    """Launch what is asked for, until stdin ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody here asks how they ended
    for line in sys.stdin:
        print(launch(json.loads(line)), flush=True)


if __name__ == "__main__":
    main()
