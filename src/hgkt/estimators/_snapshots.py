"""Estimators that threads share: a call reads one state, and a change shows whole or not at all.

What a change replaces goes into the estimator's dict in one step, and what readers hold is a copy
of that dict. Nothing that a reader may hold is changed in place but by growing at its end.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

Model = TypeVar("Model")

_locks: WeakKeyDictionary[Any, threading.RLock] = WeakKeyDictionary()
_making_locks = threading.Lock()


def snapshot(model: Model) -> Model:
    """Return an estimator as it is now, whatever other threads add to it later; costs no copy.

    A method that reads more than one attribute takes it first and reads from there.
    """
    now = object.__new__(type(model))
    now.__dict__.update(model.__dict__)
    return now


@contextmanager
def changing(model: Model) -> Iterator[Model]:
    """Yield a draft of an estimator, and give the estimator what was changed when the block ends.

    Other threads see nothing of a block that fails, and change the estimator one after another.
    Parameters that they set meanwhile stay.
    """
    with _lock_of(model):
        before = snapshot(model)
        draft = snapshot(before)
        yield draft
        old = before.__dict__
        changed = {k: v for k, v in draft.__dict__.items() if k not in old or old[k] is not v}
        model.__dict__.update(changed)


def _lock_of(model: Any) -> threading.RLock:
    with _making_locks:
        return _locks.setdefault(model, threading.RLock())
