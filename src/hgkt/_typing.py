"""Types that several rooms share."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int, dict[str, float]], None]
"""Called as ``progress(stage, done, total, values)`` while something goes on."""
