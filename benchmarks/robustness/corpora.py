"""The corpora by name."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

NAMES = ("jax", "onnx", "grammar", "zoo", "harness")


def corpus(name: str) -> ModuleType:
    """One of ``NAMES``, or the module of another: it has ``programs() -> list[str]``, ``run(program, say) -> Row``,
    and ``SERVED``, the programs after which a worker is replaced, few where they leave much behind."""
    return import_module(f"benchmarks.robustness.{name}_corpus" if name in NAMES else name)
