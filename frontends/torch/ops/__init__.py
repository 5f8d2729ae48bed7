"""The declared ATen ops, one module a family."""

from egshape.frontends.torch.ops import (  # noqa: F401
    attention,
    bags,
    contraction,
    creation,
    elementwise,
    indexing,
    movement,
    normalization,
    ordering,
    recurrent,
    reduce,
    resize,
    windows,
)
