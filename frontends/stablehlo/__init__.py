"""StableHLO in: text, bytecode, portable artifacts and ``jax.export`` objects become a ``Graph``.

``parse`` hands bytes and text to jaxlib's MLIR, ``tree`` reads the module once into plain Python, ``convert``
builds the graph: private functions inlined, shape code tracked as sizes, assertions
turned into checks.
"""

from __future__ import annotations

from egshape.frontends.stablehlo.convert import from_exported, read

__all__ = ["from_exported", "read"]
