"""What ``egshape --version`` says: the release, and the versions of what it stands on."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

from egshape import __version__
from egshape.report import Json


class Package(Json):
    """A distribution, its version, None where it is not installed, and the extra that brings it, "" for none."""

    name: str
    installed: str | None
    extra: str = ""

    def __str__(self) -> str:
        missing = f"is not installed (extra {self.extra})" if self.extra else "is missing"
        return f"{self.name} {self.installed or missing}"


class About(Json):
    """``--version --json``."""

    version: Literal[1] = 1
    egshape: str
    python: str
    system: str
    machine: str
    packages: tuple[Package, ...]

    def __str__(self) -> str:
        heading = f"egshape {self.egshape}", f"Python {self.python} ({self.system}, {self.machine})"
        return "\n".join([*heading, *map(str, self.packages)])


BASE = ("egglog", "numpy", "ml_dtypes", "pydantic", "typer")
EXTRAS = {
    "jax": "stablehlo",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "torch": "torch",
    "llvmlite": "llvm",
    "cuda-bindings": "cuda",
    "distributed": "cluster",
    "resvg_py": "png",
    "z3-solver": "verify",
}
"""Distributions to the extras that bring them."""


def about() -> About:
    """What is here."""
    packages = [Package(name=name, installed=_version(name)) for name in BASE]
    packages += [Package(name=name, installed=_version(name), extra=extra) for name, extra in EXTRAS.items()]
    return About(
        egshape=__version__,
        python=platform.python_version(),
        system=platform.system(),
        machine=platform.machine(),
        packages=tuple(packages),
    )


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
