"""Complex numbers in compiled graphs: a number is a pair of floats, along an axis of its own behind the others.

Native code moves the pairs; ops on complex numbers are calls of their numpy references, which see the numbers. So are
the few ops on real numbers that native code has no function for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from egshape.adapters.wrapped import WrappedFunction
from egshape.dims import Dim, const, symbol
from egshape.errors import EgshapeError
from egshape.ir.graph import Block, Graph, Op, SymbolDef, Value, dims_of
from egshape.ir.interpret import interpret
from egshape.ir.text import parse_graph, print_graph
from egshape.ir.types import TensorType, is_complex, numpy_dtype
from egshape.ops import REGISTRY
from egshape.ops.base import OpDecl
from egshape.ops.host import UNKNOWN, HostFunction, call_of
from egshape.plan.analysis.elements import REFUSED
from egshape.runtime.core.torch_tensors import array_of, has_tensor, is_tensor_type, tensors_of
from egshape.runtime.cuda.arrays import DeviceArray

_PART = {"c64": "f32", "c128": "f64"}
_TWO = const(2)


def _carries(decl: OpDecl) -> bool:
    """Whether an op hands numbers on, or looks at their shape only."""
    return decl.nested or decl.traits.barrier or decl.traits.sized


def needs_calls(graph: Graph) -> bool:
    """Whether the graph has complex values, or an op that native code has no function for."""
    values = [*graph.inputs, *(value for op in graph.body.walk() for value in op.results)]
    return any(is_complex(value.type.dtype) for value in values) or any(op.name in REFUSED for op in graph.body.walk())


def split(numbers: np.ndarray) -> np.ndarray:
    """Complex numbers as pairs."""
    whole = np.ascontiguousarray(numbers).reshape(numbers.shape)
    part = numpy_dtype("f32" if whole.dtype == np.complex64 else "f64")
    return whole.reshape(-1).view(part).reshape(*numbers.shape, 2)


def joined(pairs: np.ndarray) -> np.ndarray:
    """Pairs as complex numbers."""
    whole = np.ascontiguousarray(pairs)
    dtype = np.complex64 if whole.dtype == np.float32 else np.complex128
    return whole.reshape(-1).view(dtype).reshape(pairs.shape[:-1])


def _is_host_tensor(item: Any) -> bool:
    return is_tensor_type(type(item)) and item.device.type == "cpu"


def host_function(payload: bytes) -> HostFunction:
    """The function of an op that was taken out of a graph: its numpy reference, on what the pairs stand for."""
    held = json.loads(payload)
    graph = parse_graph(held["graph"])
    given, wanted = ([is_complex(value.type.dtype) for value in side] for side in (graph.inputs, graph.outputs))

    def run(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        found = interpret(graph, [joined(a) if mask else a for a, mask in zip(arrays, given, strict=True)])
        return [split(a) if mask else a for a, mask in zip(found, wanted, strict=True)]

    return run


def paired(graph: Graph) -> Graph:
    """The graph with pairs for complex numbers, and calls for the ops on them."""
    return replace(graph, body=_Pairs().block(graph.body))


class _Pairs:
    """One graph under conversion; ``made`` are the pairs of complex values."""

    def __init__(self) -> None:
        self.made: dict[Value, Value] = {}
        self.own: dict[Value, list[SymbolDef]] = {}

    def value(self, old: Value) -> Value:
        """The value that stands for one."""
        if not is_complex(old.type.dtype):
            return old
        if old not in self.made:
            shape = None if old.type.shape is None else (*old.type.shape, _TWO)
            self.made[old] = Value(old.name, TensorType(_PART[old.type.dtype], shape))
        return self.made[old]

    def values(self, old: Sequence[Value]) -> tuple[Value, ...]:
        return tuple(map(self.value, old))

    def block(self, old: Block) -> Block:
        for each in old.symbols:
            if each.axis is not None:
                self.own.setdefault(each.value, []).append(each)
        symbols = tuple(replace(each, value=self.value(each.value)) for each in old.symbols)
        ops = tuple(new for op in old.ops for new in self.op(op))
        return Block(self.values(old.args), ops, self.values(old.results), symbols)

    def op(self, old: Op) -> Iterator[Op]:
        reads = [*old.operands, *(value for region in old.regions for value in region.captures())]
        walk = [old, *(op for region in old.regions for op in region.walk())]
        values = [*reads, *(value for op in walk for value in (*op.operands, *op.results))]
        if not any(is_complex(value.type.dtype) for value in values) and not any(op.name in REFUSED for op in walk):
            yield old
        elif old.name == "constant":
            yield replace(old, attrs={"value": split(old.attrs["value"])}, results=self.values(old.results))
        elif _carries(REGISTRY[old.name]):
            yield replace(
                old,
                operands=self.values(old.operands),
                results=self.values(old.results),
                regions=tuple(map(self.block, old.regions)),
            )
        else:
            yield from self.call(old, list(dict.fromkeys(reads)))

    def call(self, old: Op, reads: Sequence[Value]) -> Iterator[Op]:
        """An op as a call of its reference; the sizes that it needs are an operand."""
        own = [each for value in old.results for each in self.own.get(value, ())]
        names = sorted(
            {name for dim in sizes_in(old, reads) for name in dim.symbols()}
            - {each.name for each in own}
            - {each.name for region in old.regions for each in _symbols(region)}
        )
        operands, symbols = list(reads), list(own)
        if names:
            type = TensorType("i64", (const(len(names)),))
            vector = Value(f"{old.results[0].name}.sizes", type)
            yield Op(
                "dims",
                (),
                {"elements": tuple(map(symbol, names)), "shape": (len(names),), "dtype": "i64"},
                (vector,),
                (),
                old.location,
            )
            operands.append(vector)
            symbols += [SymbolDef(name, vector, element=place) for place, name in enumerate(names)]
        alone = Graph(
            "op",
            Block(tuple(operands), (old,), old.results, tuple(symbols)),
            tuple(f"out{place}" for place in range(len(old.results))),
        )
        told = {each.name for each in own}
        shapes = [value.type.shape for value in self.values(old.results)]
        attrs = {
            "target": old.name,
            "call": call_of("reference", json.dumps({"graph": print_graph(alone)}).encode()),
            "dtypes": tuple(value.type.dtype for value in self.values(old.results)),
            "ranks": tuple(-1 if shape is None else len(shape) for shape in shapes),
            "sizes": tuple(
                const(UNKNOWN) if size.symbols() & told else size for shape in shapes for size in shape or ()
            ),
        }
        name = "host_effect" if REGISTRY[old.name].effect else "host_call"
        yield Op(name, self.values(operands), attrs, self.values(old.results), (), old.location)


def _symbols(block: Block) -> Iterator[SymbolDef]:
    yield from block.symbols
    for op in block.walk():
        for region in op.regions:
            yield from region.symbols


def sizes_in(op: Op, reads: Sequence[Value]) -> Iterator[Dim]:
    """Every size that an op and its regions speak of."""
    inside = [op, *(each for region in op.regions for each in region.walk())]
    for value in (*reads, *(value for each in inside for value in each.results)):
        yield from value.type.shape or ()
    for each in inside:
        yield from dims_of(tuple(each.attrs.values()))
        for relation in each.requires:
            yield from (relation.lhs, relation.rhs)
        for region in each.regions:
            for arg in region.args:
                yield from arg.type.shape or ()


def on_host(array: Any) -> np.ndarray:
    """An array of the host; one of a device, which is there where inputs of the call are its own, is copied."""
    return np.asarray(array.numpy() if isinstance(array, DeviceArray) else array)


def _complex(name: str, dtype: str, given: Any) -> np.ndarray:
    """An input of complex numbers. Raises EgshapeError for other elements, or one on a device that is not ours."""
    if hasattr(given, "__cuda_array_interface__") and not isinstance(given, DeviceArray):
        raise EgshapeError(
            f"input {name!r} lies on a device, and complex numbers are split on the host",
            hint="give it as numpy's",
            code="input",
        )
    array = on_host(given)
    if array.dtype != numpy_dtype(dtype):
        raise EgshapeError(f"input {name!r} has elements of {numpy_dtype(dtype)}, got {array.dtype}", code="input")
    return array


class PairFunction(WrappedFunction):
    """A compiled graph whose inputs or outputs may be complex; called as ``CompiledFunction`` is."""

    def __init__(self, graph: Graph, compile_paired: Callable[[Graph], Any]) -> None:
        super().__init__(graph, compile_paired(paired(graph)))
        self._given = [(value.name, value.type.dtype) for value in graph.inputs]
        self._wanted = [is_complex(value.type.dtype) for value in graph.outputs]

    def __call__(self, /, *inputs: Any, **named: Any) -> Any:
        """One array, or a tuple in output order; tensors where one came in. Raises EgshapeError as the graph does."""
        arrays = self.ordered(inputs, named)
        brought = has_tensor(arrays)
        arrays = tuple([array_of(each) if brought and _is_host_tensor(each) else each for each in arrays])
        given = []
        for (name, dtype), array in zip(self._given, arrays, strict=True):
            given.append(split(_complex(name, dtype, array)) if is_complex(dtype) else array)
        found = self._function(*given)
        results = found if isinstance(found, tuple) else (found,)
        shown = tuple(joined(on_host(each)) if mask else each for each, mask in zip(results, self._wanted, strict=True))
        shown = tensors_of(shown) if brought else shown
        return shown if isinstance(found, tuple) else shown[0]

    def save(self, path: Any, form: str = "egx") -> Any:
        """Raises EgshapeError: such ops run in Python."""
        raise EgshapeError(
            "has ops on complex numbers, or others that run in Python, which no artifact holds",
            where=str(path),
            hint="run the model with egshape.compile in this process",
            code="host-call",
        )
