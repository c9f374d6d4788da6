"""How a run of many cells is shown: a live display on a terminal, else a line per cell."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table

from hgkt.cli._output import log

if TYPE_CHECKING:
    from hgkt.experiments.plan import CellResult
    from hgkt.experiments.run import RunState

_MAX_RUNNING = 16


@contextmanager
def run_display() -> Iterator[Callable[[RunState], None]]:
    """Yield a callback for the states of a run, which draws them on stderr."""
    display = _Display()
    show = display.update if log.is_terminal else _print_line

    def watch(state: RunState) -> None:
        if not state.n_done and not state.running:
            log.print(escape(plan_line(state)), soft_wrap=True)
        show(state)

    if not log.is_terminal:
        yield watch
        return
    with Live(console=log, get_renderable=display.render, refresh_per_second=4, transient=True):
        yield watch


def plan_line(state: RunState) -> str:
    """Say what will run: cells by method, and how long they take where earlier runs tell.

    Examples
    --------
    >>> from hgkt.experiments.run import RunState
    >>> state = RunState(3, 2, todo={"hgkt": 2, "ridge": 1}, n_guessed=3)
    >>> plan_line(state)
    '3 cells to run (hgkt 2, ridge 1), 2 are there; how long they take is not known yet'
    """
    n, methods = state.n_total, ", ".join(f"{name} {n}" for name, n in state.todo.items())
    head = f"{n} cell{'' if n == 1 else 's'} to run" + (f" ({methods})" if n else "")
    line = f"{head}, {state.n_there} {'is' if state.n_there == 1 else 'are'} there"
    if not n:
        return line
    if state.n_guessed:
        some = "they take" if state.n_guessed == n else f"{state.n_guessed} of them take"
        return f"{line}; how long {some} is not known yet"
    return f"{line}; about {duration(state.seconds_left or 0.0)}"


class _Display:
    """Overall bar, counts, time left, and the cells under way."""

    def __init__(self) -> None:
        self._state: RunState | None = None
        self._at = time.monotonic()
        self._begun: dict[str, float] = {}

    def update(self, state: RunState) -> None:
        self._state, self._at = state, time.monotonic()
        for key in state.running:
            self._begun.setdefault(key, self._at)
        if state.last is not None and not state.last.ok:
            log.print(_failure(state.last), soft_wrap=True)

    def render(self) -> RenderableType:
        state, now = self._state, time.monotonic()
        if state is None or not state.n_total:
            return ""
        if state.n_done == state.n_total:
            return f"{state.n_total} cells have run; writing the report"
        head = Table.grid(padding=(0, 2))
        words = [f"{state.n_done}/{state.n_total} cells"]
        if state.n_there:
            words.append(f"{state.n_there} were there")
        if state.n_failed:
            words.append(f"[red]{state.n_failed} failed[/red]")
        if state.seconds_left is not None:
            words.append(f"about {duration(max(0.0, state.seconds_left - now + self._at))} left")
        head.add_row(ProgressBar(state.n_total, state.n_done, width=30), ", ".join(words))
        running = list(state.running.items())
        lines: list[RenderableType] = [
            f"  {escape(cell.label)} ({duration(now - self._begun.get(key, now))})"
            for key, cell in running[:_MAX_RUNNING]
        ]
        if len(running) > _MAX_RUNNING:
            lines.append(f"  and {len(running) - _MAX_RUNNING} more")
        return Group(head, *lines)


def _print_line(state: RunState) -> None:
    if state.last is None:
        return
    left = "" if not state.seconds_left else f", about {duration(state.seconds_left)} left"
    head = f"{state.n_done}/{state.n_total}"
    if state.last.ok:
        text = f"{escape(state.last.cell.label)} ({duration(state.last.seconds)})"
    else:
        text = _failure(state.last)
    log.print(f"{head} {text}{left}", soft_wrap=True)


def _failure(result: CellResult) -> str:
    return f"[red]failed[/red] {escape(result.cell.label)}: {escape(result.error)}"


def duration(seconds: float) -> str:
    """Say seconds as a person would.

    Parameters
    ----------
    seconds : float
        A time span.

    Examples
    --------
    >>> [duration(value) for value in (0.42, 75, 8000)]
    ['0.4 s', '1 min 15 s', '2 h 13 min']
    """
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
