"""CUDA C++ to cubins through NVRTC, which needs no GPU."""

from __future__ import annotations

from collections.abc import Sequence

from egshape.errors import EgshapeError
from egshape.lower.cuda.kernel import CudaKernel
from egshape.lower.cuda.prelude import PRELUDE

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")


def source(kernels: Sequence[CudaKernel]) -> str:
    """One translation unit with all kernels."""
    return PRELUDE + "\n".join(kernel.source for kernel in kernels)


def cubin(text: str, architecture: str = "sm_90") -> bytes:
    """The cubin of CUDA C++ ``text`` for one architecture. Products and sums are not contracted, so that exact ops
    keep their bits.

    Raises EgshapeError ``dependency`` where NVRTC is missing, ``cuda-compile`` with the compiler's log."""
    try:
        from cuda.core import Program, ProgramOptions
    except ImportError as error:
        raise EgshapeError("compiling for CUDA needs NVRTC", hint='pip install "egshape[cuda]"',
                           code="dependency") from error
    try:
        options = ProgramOptions(arch=architecture, fma=False)
        return bytes(Program(text, "c++", options).compile("cubin").code)
    except Exception as error:
        raise EgshapeError(f"NVRTC refuses a kernel for {architecture}: {error}", code="cuda-compile",
                           hint="a fault of egshape; please report it") from error
