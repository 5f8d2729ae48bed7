"""What ``egshape --version`` says: the release, and the versions of what it stands on."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from egshape import __version__

BASE = ("egglog", "numpy", "ml_dtypes", "pydantic", "typer")
EXTRAS = {
    "jax": "stablehlo",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "torch": "torch",
    "llvmlite": "llvm",
    "cuda-bindings": "cuda",
    "distributed": "cluster",
    "z3-solver": "verify",
}
"""Distributions to the extras that bring them."""


def about() -> Iterator[str]:
    """A line each."""
    yield f"egshape {__version__}"
    yield f"Python {platform.python_version()} ({platform.system()}, {platform.machine()})"
    for name in BASE:
        yield f"{name} {_version(name) or 'is missing'}"
    for name, extra in EXTRAS.items():
        yield f"{name} {_version(name) or f'is not installed (extra {extra})'}"


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
