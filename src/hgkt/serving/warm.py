"""What workers share: imported once, in the process that they are forked from."""

from __future__ import annotations

import signal
import sys

import hgkt.serving.app
import hgkt.serving.workers  # noqa: F401

# A service manager signals all processes at once. The parent says when workers end, and this
# process ends with the parent; its workers would not survive it. Any other process that imports
# this keeps its signals: what it starts would inherit that they are ignored.
if any("multiprocessing.forkserver" in argument for argument in sys.orig_argv):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
