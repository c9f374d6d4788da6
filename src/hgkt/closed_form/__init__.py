"""The paper's two relations solved: a metric from inside classes, a kernel between them."""

from hgkt.closed_form.kernels import ClassKernel, KernelSettings
from hgkt.closed_form.member import Ensemble, Member
from hgkt.closed_form.metric import WithinClassSpectrum
from hgkt.closed_form.posterior import ClassPosterior
from hgkt.closed_form.transfer import ClosedFormTransfer

__all__ = [
    "ClassKernel",
    "ClassPosterior",
    "ClosedFormTransfer",
    "Ensemble",
    "KernelSettings",
    "Member",
    "WithinClassSpectrum",
]
