"""Tracing as if no input were empty: many ops of torch ask first whether a tensor has elements, which sizes without a
value do not tell."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_ALONE = threading.RLock()
"""Held while torch is changed, which is done to all of its process."""


@contextmanager
def nonempty() -> Iterator[None]:
    """Inside, torch takes the open sizes of inputs for at least 1 where it would fail for not knowing it; sizes of 0
    are to be looked at apart. Other threads trace as ever."""
    import sympy  # type: ignore[import-untyped]
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    _ALONE.acquire()
    thread = threading.get_ident()
    evaluate = ShapeEnv.evaluate_expr

    def evaluated(
        self: Any,
        expr: Any,
        hint: Any = None,
        fx_node: Any = None,
        size_oblivious: bool = False,
        fallback_value: bool | None = None,
        **options: Any,
    ) -> Any:
        mine = threading.get_ident() == thread
        if mine and fallback_value is None and expr.free_symbols and expr.free_symbols <= set(self.unbacked_inputs):
            found = expr.subs({each: sympy.Dummy(integer=True, positive=True) for each in expr.free_symbols})
            if found in (sympy.true, sympy.false):
                fallback_value = bool(found)
        return evaluate(self, expr, hint, fx_node, size_oblivious, fallback_value, **options)

    ShapeEnv.evaluate_expr = evaluated
    try:
        yield
    finally:
        ShapeEnv.evaluate_expr = evaluate
        _ALONE.release()
