"""The program `hgkt`, also as ``python -m hgkt``."""

from __future__ import annotations

import signal


def main() -> None:
    """Run the command line.

    Until it is imported, an interrupt ends the process and raises nothing: libraries that try
    what they may import catch any exception, and this one would be lost in them. Where whoever
    started the process has it ignore interrupts, as shells do in the background, it does.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from hgkt.cli.main import run

    signal.signal(signal.SIGINT, before)
    run()


if __name__ == "__main__":
    main()
