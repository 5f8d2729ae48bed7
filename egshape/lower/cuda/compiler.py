"""CUDA C++ to cubins through NVRTC, which needs no GPU."""

from __future__ import annotations

from collections.abc import Sequence

from egshape.errors import EgshapeError, InvalidInput
from egshape.hints import install
from egshape.lower.common import cache
from egshape.lower.cuda.kernel import CudaKernel
from egshape.lower.cuda.prelude import PRELUDE

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")


def source(kernels: Sequence[CudaKernel]) -> str:
    """One translation unit with all kernels."""
    return PRELUDE + "\n".join(kernel.source for kernel in kernels)


def cached_cubin(text: str, architecture: str) -> bytes:
    """The same as ``cubin``, from the cache if it is there. The key: the text, the architecture, NVRTC's version."""
    key = (text, architecture, "nvrtc", ".".join(map(str, toolkit())))
    return cache.cached(key, lambda: cubin(text, architecture))


def toolkit() -> tuple[int, int]:
    """The version of CUDA that NVRTC is of. Raises EgshapeError ``dependency`` where it is missing."""
    try:
        from cuda.bindings import nvrtc

        _, major, minor = nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError) as error:
        raise _missing(error) from error
    return int(major), int(minor)


def _missing(error: Exception) -> EgshapeError:
    return EgshapeError(f"compiling for CUDA needs NVRTC: {error}", hint=install("cuda"), code="dependency")


def cubin(text: str, architecture: str = "sm_90") -> bytes:
    """The cubin of CUDA C++ ``text`` for one architecture. Products and sums are not contracted, so that exact ops
    keep their bits.

    Raises EgshapeError ``dependency`` where NVRTC is missing, ``cuda-compile`` with the compiler's log."""
    try:
        from cuda.bindings import nvrtc

        code, program = nvrtc.nvrtcCreateProgram(text.encode(), b"egshape.cu", 0, [], [])
    except (ImportError, RuntimeError) as error:
        raise _missing(error) from error
    if code:
        raise _missing(RuntimeError(code.name))
    options = [f"--gpu-architecture={architecture}".encode(), b"--fmad=false"]
    try:
        (code,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        if code:
            _, size = nvrtc.nvrtcGetProgramLogSize(program)
            log = bytes(size)
            nvrtc.nvrtcGetProgramLog(program, log)
            raise _refused(architecture, code.name, log.rstrip(b"\0 \n").decode(errors="replace"))
        _, size = nvrtc.nvrtcGetCUBINSize(program)
        found = bytes(size)
        nvrtc.nvrtcGetCUBIN(program, found)
        return found
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _refused(architecture: str, code: str, log: str) -> EgshapeError:
    if "--gpu-architecture" in log:
        return InvalidInput(
            f"the installed NVRTC does not compile for {architecture}",
            hint="name architectures such as sm_80 or sm_90",
        )
    return EgshapeError(
        f"NVRTC refuses a kernel for {architecture}: {code}: {log}",
        code="cuda-compile",
        hint="a fault of egshape; please report it",
    )
