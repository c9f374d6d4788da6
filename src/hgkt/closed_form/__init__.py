"""The paper's two relations solved: a metric from inside classes, a kernel between them."""

from hgkt.closed_form.kernels import ClassKernel, KernelTerm
from hgkt.closed_form.metric import WithinClassSpectrum
from hgkt.closed_form.mixture import MetricTerm, Mixture, Ridge
from hgkt.closed_form.posterior import ClassPosterior
from hgkt.closed_form.transfer import ClosedFormTransfer

__all__ = [
    "ClassKernel",
    "ClassPosterior",
    "ClosedFormTransfer",
    "KernelTerm",
    "MetricTerm",
    "Mixture",
    "Ridge",
    "WithinClassSpectrum",
]
