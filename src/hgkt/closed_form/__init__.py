"""The paper's two relations solved: a metric from inside classes, a kernel between them."""

from hgkt.closed_form.kernels import ClassKernel
from hgkt.closed_form.metric import WithinClassSpectrum
from hgkt.closed_form.transfer import ClosedFormSettings, ClosedFormTransfer

__all__ = ["ClassKernel", "ClosedFormSettings", "ClosedFormTransfer", "WithinClassSpectrum"]
