"""Where to compute: the CPU, or a CUDA device where there is one."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from hgkt._validation import check_choice, import_extra
from hgkt.exceptions import DataError


def torch_device(name: str) -> str:
    """Return "cpu" or "cuda" for {"auto", "cpu", "cuda"}.

    torch is imported only where a CUDA driver is there or "cuda" is asked for: a closed-form fit
    on a CPU should not wait for it.
    """
    check_choice("device", name, ("auto", "cpu", "cuda"))
    if name == "cpu":
        return "cpu"
    if name == "auto" and "torch" not in sys.modules and not Path("/proc/driver/nvidia").exists():
        return "cpu"
    if name == "auto" and find_spec("torch") is None:
        return "cpu"
    torch = import_extra("torch", "network")
    if torch.cuda.is_available():
        return "cuda"
    if name == "cuda":
        raise DataError("device is 'cuda' but torch finds no CUDA device; use 'auto' or 'cpu'")
    return "cpu"


def scoring_device(name: str) -> str | None:
    """Return the torch device on which a model of `device` scores; None: NumPy, on the CPU.

    Only "cuda" scores on a GPU: "auto" is for fits, since a row or two are scored sooner where
    they are. A model that was fitted on a GPU and came to a machine without one scores on the CPU.
    """
    if name != "cuda" or find_spec("torch") is None:
        return None
    torch = import_extra("torch", "network")
    return "cuda" if torch.cuda.is_available() else None


def is_tensor(rows: object) -> bool:
    """Say whether something is a torch tensor; torch is not imported for it."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(rows, torch.Tensor)
