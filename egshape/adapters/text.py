"""Text in compiled graphs: an element is a number, by which a table of the call knows the text.

Native code moves the numbers and hands them to Python functions, which see the texts themselves. The table lives as
long as the call."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from egshape.adapters.wrapped import WrappedFunction
from egshape.errors import EgshapeError
from egshape.ir.graph import Block, Graph, Op, SymbolDef, Value
from egshape.ir.types import TEXT, TensorType
from egshape.ops.host import HOST_CALLS, HostFunction, resolve

NUMBERS = "i64"

_CALL = threading.local()


class Table:
    """The texts of one call, by number."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def numbers(self, texts: np.ndarray) -> np.ndarray:
        """The numbers of texts; equal ones have one."""
        out = np.empty(texts.shape, np.int64)
        for place, text in enumerate(texts.reshape(-1)):
            known = self._numbers.setdefault(str(text), len(self._texts))
            if known == len(self._texts):
                self._texts.append(str(text))
            out.reshape(-1)[place] = known
        return out

    def texts(self, numbers: np.ndarray) -> np.ndarray:
        """The texts of numbers."""
        out = np.empty(numbers.shape, object)
        for place, number in enumerate(numbers.reshape(-1)):
            out.reshape(-1)[place] = self._texts[number]
        return out


def has_text(graph: Graph) -> bool:
    """Whether a value of the graph is text."""
    values = [*graph.inputs, *(value for op in graph.body.walk() for value in op.results)]
    return any(value.type.dtype == TEXT for value in values)


def numbered(graph: Graph) -> Graph:
    """The graph with numbers for texts; host calls turn them into each other."""
    made: dict[Value, Value] = {}

    def value(old: Value) -> Value:
        if old.type.dtype != TEXT:
            return old
        return made.setdefault(old, Value(old.name, TensorType(NUMBERS, old.type.shape)))

    def values(old: Sequence[Value]) -> tuple[Value, ...]:
        return tuple(map(value, old))

    def block(old: Block) -> Block:
        symbols = tuple(
            SymbolDef(each.name, value(each.value), each.axis, each.element, each.offset) for each in old.symbols
        )
        return Block(values(old.args), tuple(map(op, old.ops)), values(old.results), symbols)

    def op(old: Op) -> Op:
        attrs = _call(old) if old.name in HOST_CALLS else old.attrs
        return replace(
            old,
            operands=values(old.operands),
            results=values(old.results),
            attrs=attrs,
            regions=tuple(map(block, old.regions)),
        )

    return replace(graph, body=block(graph.body))


def _call(op: Op) -> dict[str, Any]:
    """The attributes of a host call that gets and gives numbers."""
    masks = [[value.type.dtype == TEXT for value in side] for side in (op.operands, op.results)]
    if not any(any(mask) for mask in masks):
        return dict(op.attrs)
    kind, payload = op.attrs["call"]
    dtypes = tuple(NUMBERS if dtype == TEXT else dtype for dtype in op.attrs["dtypes"])
    return {**op.attrs, "dtypes": dtypes, "call": ("text", json.dumps([*masks, kind, payload]))}


def resolved(call: tuple[str, str]) -> HostFunction:
    """The function of a host call, one on numbers for one on texts. Errors as of ``ops.host.resolve``."""
    if call[0] != "text":
        return resolve(call)
    given, wanted, kind, payload = json.loads(call[1])
    function = resolve((kind, payload))

    def run(arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        table: Table = _CALL.table
        shown = [table.texts(array) if mask else array for array, mask in zip(arrays, given, strict=True)]
        found = [np.asarray(each) for each in function(shown)]
        return [table.numbers(array) if mask else array for array, mask in zip(found, wanted, strict=True)]

    return run


class TextFunction(WrappedFunction):
    """A compiled graph whose inputs or outputs may be text; called as ``CompiledFunction`` is."""

    def __init__(self, graph: Graph, compile_numbered: Callable[[Graph], Any]) -> None:
        super().__init__(graph, compile_numbered(numbered(graph)))
        self._given = [value.type.dtype == TEXT for value in graph.inputs]
        self._wanted = [value.type.dtype == TEXT for value in graph.outputs]

    def __call__(self, /, *inputs: Any, **named: Any) -> Any:
        """One array, or a tuple in output order. Raises EgshapeError as the graph does."""
        arrays = self.ordered(inputs, named)
        before, table = getattr(_CALL, "table", None), Table()
        _CALL.table = table
        try:
            given = []
            for name, array, mask in zip(self._inputs, map(np.asarray, arrays), self._given, strict=True):
                if mask and array.dtype.kind not in "OU":
                    raise EgshapeError(f"input {name!r} is text, got elements of {array.dtype}", code="input")
                given.append(table.numbers(array) if mask else array)
            found = self._function(*given)
            results = found if isinstance(found, tuple) else (found,)
            shown = tuple(table.texts(each) if mask else each for each, mask in zip(results, self._wanted, strict=True))
        finally:
            _CALL.table = before
        return shown if isinstance(found, tuple) else shown[0]

    def save(self, path: Any, form: str = "egx") -> Any:
        """Raises EgshapeError: an artifact has no texts."""
        raise EgshapeError(
            "has values that are text, which no artifact holds",
            where=str(path),
            hint="run the model with egshape.compile in this process",
            code="host-call",
        )
