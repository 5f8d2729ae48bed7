"""The declared ops. Importing this package declares every shipped op in ``REGISTRY``."""

from egshape.ops import (  # noqa: F401  (each module declares its ops when imported)
    checks,
    contraction,
    control,
    creation,
    elementwise,
    host,
    indexing,
    movement,
    reduce,
)
from egshape.ops.base import REGISTRY, AttrDecl, Element, OpDecl, Registry
from egshape.ops.declare import op

__all__ = ["REGISTRY", "AttrDecl", "Element", "OpDecl", "Registry", "op"]
