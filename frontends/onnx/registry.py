"""How an ONNX op is declared: one function an op, all its opsets in it.

::

    @onnx_op("LayerNormalization", composite=True)
    def layer_normalization(s: Scope, node: Node, x: Value, scale: Value, bias: Value | None) -> Value: ...

The function gets the block under conversion, the node, and the operands in ONNX's order (None for one that is left
out); it adds our ops through ``s`` and gives the results in ONNX's order. ``composite`` wraps what it adds in one
``composite`` op named ``onnx.LayerNormalization``, so that the node goes out as it came in. What differs between opsets
is asked of ``node.opset``, or declared apart with ``since``: the newest declaration whose ``since`` is not above the
opset counts. A function may raise ``NoLowering`` for what it does not know: the node is then expanded by the function
that ONNX's own schema holds, or called on the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Handler = Callable[..., Any]


class NoLowering(Exception):
    """A declared op is used in a way that its declaration does not lower."""


class Fork(Exception):
    """A node has ways (such as the branches of an If) whose results differ in rank: what follows tells which ones the
    model can take. ``ways`` give the node's results in a scope; ``choose`` makes sure that one of them is taken;
    ``assumed`` is the one of them that facts say, None where they say none."""

    def __init__(
        self, ways: Sequence[Callable[[Any], list[Any]]], choose: Callable[[Any, int], None], assumed: int | None = None
    ) -> None:
        super().__init__("what follows tells which way is taken")
        self.ways = ways
        self.choose = choose
        self.assumed = assumed


@dataclass(frozen=True)
class Declaration:
    """One op of one domain, from an opset on."""

    op: str
    handler: Handler
    domain: str = ""
    since: int = 1
    composite: bool = False
    sequences: bool = False
    """Whether operands may be sequences."""


class Declarations:
    """The declared ops. ``DECLARATIONS`` holds the shipped ones."""

    def __init__(self) -> None:
        self._ops: dict[tuple[str, str], list[Declaration]] = {}

    def add(self, declaration: Declaration) -> None:
        """Declare an op; its declarations are kept with the newest first."""
        held = self._ops.setdefault((declaration.domain, declaration.op), [])
        if any(other.since == declaration.since for other in held):
            raise ValueError(f"{declaration.domain}.{declaration.op} is declared twice for opset {declaration.since}")
        held.append(declaration)
        held.sort(key=lambda each: -each.since)

    def find(self, domain: str, op: str, opset: int) -> Declaration | None:
        """The declaration that counts in an opset, None if there is none."""
        held = self._ops.get((domain, op), ())
        return next((each for each in held if each.since <= opset), None)

    def names(self) -> Sequence[tuple[str, str]]:
        """Domain and op of all declarations."""
        return sorted(self._ops)


DECLARATIONS = Declarations()


def onnx_op(
    *names: str, domain: str = "", since: int = 1, composite: bool = False, sequences: bool = False
) -> Callable[[Handler], Handler]:
    """Declare the ops of these names; see the module's docstring."""

    def declare(handler: Handler) -> Handler:
        for name in names:
            DECLARATIONS.add(Declaration(name, handler, domain, since, composite, sequences))
        return handler

    return declare


def results_of(found: Any) -> list[Any]:
    """What a handler gave, as a list."""
    return list(found) if isinstance(found, list | tuple) else [found]
