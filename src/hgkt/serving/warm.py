"""What workers share: imported once in the process that they are forked from, and nowhere else."""

from __future__ import annotations

import signal

import hgkt.serving.app
import hgkt.serving.workers  # noqa: F401

# A service manager signals all processes at once. The parent says when workers end, and this
# process ends with the parent; its workers would not survive it.
signal.signal(signal.SIGTERM, signal.SIG_IGN)
