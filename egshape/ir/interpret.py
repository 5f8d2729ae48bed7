"""The numpy interpreter: runs a graph at any sizes and holds every inferred size against the real one.

It is the meaning of a graph that rewrites are tested against: symbols are read from the arrays, and each
type, attribute and required relation is evaluated and compared. A region is run anew at each call; one
that works element by element on scalars is run on whole arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import Any

import numpy as np

from egshape.dims import Dim
from egshape.errors import CheckFailed, DoesNotFit, EgshapeError, UndefinedSize
from egshape.facts import Relation, parse_facts
from egshape.ir.graph import Attr, Block, Graph, Op, SymbolDef, Value
from egshape.ir.inputs import checked_inputs, solve_inputs
from egshape.ir.types import is_fit, numpy_dtype
from egshape.ops import REGISTRY
from egshape.ops.base import OpDecl, Registry
from egshape.ops.kinds import region_kind

Trace = Callable[[Op, Sequence[np.ndarray]], None]
"""Called after each op with its results."""

Meter = Callable[[Op, Mapping[str, int]], None]
"""Called before each op with the sizes that are known then; what it raises ends the run."""

_ELEMENTWISE = frozenset(("unary", "binary", "ternary"))
"""Families of ops that work element by element."""

_FOLDING = frozenset(("reduce", "indexing"))
"""Families of ops whose regions work on scalars."""


def interpret(
    graph: Graph,
    inputs: Sequence[Any] | Mapping[str, Any],
    *,
    trace: Trace | None = None,
    meter: Meter | None = None,
    max_while: int = 1_000_000,
    check_requires: bool = True,
    registry: Registry = REGISTRY,
) -> list[np.ndarray]:
    """Run a graph on arrays, in input order or by input name; the results in output order are fresh
    arrays.

    ``max_while`` bounds the rounds of each loop; ``check_requires=False`` skips ``Op.requires``. Raises
    EgshapeError: ``input`` for a wrong number, dtype, rank or size of inputs; ``inference`` if a size
    that was inferred is not the real one; ``invalid-size`` for a negative size; ``loop-limit``. Raises
    CheckFailed if sizes do not fit together or a check of the program or an assumed fact is false."""
    run = _Run(registry, trace, max_while, check_requires, meter)
    arrays = checked_inputs(graph, inputs)
    with run.block_symbols(graph.body):
        run.bind_inputs(graph, arrays)
        run.check_facts(graph)
        run.ops(graph.body.ops)
        return [np.array(run.read(value), copy=True) for value in graph.outputs]


def shapes_of(graph: Graph, arrays: Sequence[np.ndarray]) -> tuple[tuple[int, ...], ...]:
    """The shapes of the results for these arrays, of which only shapes are read.

    Raises EgshapeError as ``interpret`` does for inputs that do not fit, and for a shape that depends on data."""
    run = _Run(REGISTRY, None, max_while=0, check_requires=True)
    found = []
    with run.block_symbols(graph.body):
        given = run.bind_shapes(graph, arrays)
        for name, value in zip(graph.output_names, graph.outputs, strict=True):
            if value.type.shape is None or any(dim.symbols() - given for dim in value.type.shape):
                raise EgshapeError(f"the shape of {name} depends on data", code="input")
            found.append(tuple(size.evaluate(run.sizes) for size in value.type.shape))
    return tuple(found)


def check_shapes(graph: Graph, arrays: Sequence[np.ndarray]) -> None:
    """Raises EgshapeError where sizes of these arrays are refused, whatever their data."""
    run = _Run(REGISTRY, None, max_while=0, check_requires=True)
    with run.block_symbols(graph.body):
        given = run.bind_shapes(graph, arrays)
        for op in graph.ops:
            if all(relation.symbols() <= given for relation in op.requires):
                run.check_required(op)


def _asks_only(op: Op, names: Set[str]) -> bool:
    """Whether an op is a check of sizes that are known."""
    if op.name != "check" or op.operands:
        return False
    return all(dim.symbols() <= names for dim in (*op.attrs["sides"], *op.attrs["args"]))


def evaluate_op(op: Op, operands: Sequence[np.ndarray], registry: Registry = REGISTRY) -> list[np.ndarray]:
    """The results of one op whose attributes and types hold no symbols and whose regions capture nothing.

    Raises EgshapeError where the op rejects its operands, ``unbound-symbol`` for a symbol."""
    run = _Run(registry, None, max_while=0, check_requires=True)
    run.values.update(zip(op.operands, operands, strict=True))
    run.op(op)
    return [run.read(value) for value in op.results]


class _Sizes(dict[str, int]):
    """Sizes of symbols; one that is not known yet is read from the value that defines it."""

    def __init__(self, resolve: Callable[[str], int]) -> None:
        super().__init__()
        self._resolve = resolve

    def __missing__(self, name: str) -> int:
        self[name] = found = self._resolve(name)
        return found


class _Run:
    def __init__(
        self, registry: Registry, trace: Trace | None, max_while: int, check_requires: bool, meter: Meter | None = None
    ) -> None:
        self.registry = registry
        self.trace = trace
        self.meter = meter
        self.max_while = max_while
        self.check_requires = check_requires
        self.values: dict[Value, np.ndarray] = {}
        self.definitions: dict[str, SymbolDef] = {}
        self.aliases: dict[str, SymbolDef] = {}
        """Input axes by their place (``arg0.1``), as facts may name them."""
        self.sizes = _Sizes(self._resolve)
        self._sources: dict[Block, tuple[Value, ...]] = {}
        self._regions: dict[Block, tuple[str | None, bool]] = {}

    # -- values and sizes
    # ------------------------------------------------------------------------------------------

    def read(self, value: Value) -> np.ndarray:
        """The array of a value."""
        try:
            return self.values[value]
        except KeyError:
            raise EgshapeError(f"%{value.name} is used before it is defined", code="invalid-graph") from None

    def _resolve(self, name: str) -> int:
        definition = self.definitions.get(name) or self.aliases.get(name)
        if definition is None or definition.value not in self.values:
            raise EgshapeError(f"nothing defines the size {name!r}", code="unbound-symbol")
        array = self.values[definition.value]
        if definition.axis is not None and definition.axis >= array.ndim:
            raise EgshapeError(
                f"%{definition.value.name} is {definition.value.type}, but has the shape {list(array.shape)}",
                code="inference",
            )
        if definition.axis is not None:
            return int(array.shape[definition.axis])
        size = int(array.reshape(-1)[definition.element]) + definition.offset
        if size < 0:
            raise EgshapeError(
                f"element {definition.element} of %{definition.value.name} is {size - definition.offset}, "
                f"which is no size",
                code="invalid-size",
            )
        return size

    @contextmanager
    def block_symbols(self, block: Block) -> Iterator[None]:
        """The symbols of a block are known inside of it only, and read anew each time it is entered."""
        if not block.symbols:
            yield
            return
        names = {definition.name for definition in block.symbols}
        outer = {name: self.definitions.get(name) for name in names}
        outer_sizes = {name: self.sizes.pop(name) for name in names if name in self.sizes}
        for definition in block.symbols:
            self.definitions[definition.name] = definition
        for value in self._made_by(block):
            self.values.pop(value, None)  # of the round before
        yield
        for name in names:
            self.sizes.pop(name, None)
            previous = outer[name]
            if previous is None:
                del self.definitions[name]
            else:
                self.definitions[name] = previous
        self.sizes.update(outer_sizes)

    def _made_by(self, block: Block) -> tuple[Value, ...]:
        """The values that ops of the block make and symbols of it are read from."""
        if block not in self._sources:
            made = {value for op in block.ops for value in op.results}
            self._sources[block] = tuple({each.value for each in block.symbols} & made)
        return self._sources[block]

    def concrete(self, attr: Attr) -> Attr:
        """An attribute with every size as a number."""
        if isinstance(attr, Dim):
            return attr.evaluate(self.sizes)
        if isinstance(attr, tuple):
            return tuple(self.concrete(item) for item in attr)
        return attr

    # -- entry
    # -----------------------------------------------------------------------------------------------------

    def bind_inputs(self, graph: Graph, arrays: Sequence[np.ndarray]) -> None:
        """Bind the inputs and hold their sizes against their types."""
        self.values.update(zip(graph.inputs, arrays, strict=True))
        self.aliases = {
            f"{value.name}.{axis}": SymbolDef(f"{value.name}.{axis}", value, axis=axis)
            for value, array in zip(graph.inputs, arrays, strict=True)
            for axis in range(array.ndim)
        }
        self.sizes.update(solve_inputs(graph, arrays, set(self.definitions)))
        for value, array in zip(graph.inputs, arrays, strict=True):
            for axis, (size, found) in enumerate(zip(value.type.shape or (), array.shape, strict=False)):
                wanted = size.evaluate(self.sizes)
                if wanted != found:
                    raise EgshapeError(
                        f"axis {axis} of input {value.name!r} has size {found}, "
                        f"its type {value.type} wants {_shown(size, wanted)}",
                        code="input",
                    )

    def bind_shapes(self, graph: Graph, arrays: Sequence[np.ndarray]) -> Set[str]:
        """Bind the inputs and run the checks of their sizes; the names of these."""
        self.bind_inputs(graph, arrays)
        given = {each.name for each in graph.body.symbols if each.value in graph.inputs and each.axis is not None}
        given |= self.sizes.keys()
        self.ops([op for op in graph.ops if _asks_only(op, given)])
        return given

    def check_facts(self, graph: Graph) -> None:
        """Assumed facts hold or the program is rejected."""
        for text in graph.facts.assumed:
            for relation in parse_facts(text):
                if isinstance(relation, Relation) and not self.holds(relation):
                    raise CheckFailed(
                        f"the inputs do not fit the assumed fact {relation.text}{self._with_sizes(relation)}"
                    )

    # -- ops
    # -------------------------------------------------------------------------------------------------------

    def ops(self, ops: Sequence[Op]) -> None:
        """Run ops in order."""
        for op in ops:
            self.op(op)

    def op(self, op: Op) -> None:
        """Run one op; errors name it and its location."""
        if self.meter is not None:
            self.meter(op, self.sizes)
        try:
            operands = [self.read(operand) for operand in op.operands]
            if self.check_requires:
                self.check_required(op)
            decl = self.registry[op.name]
            found = self.evaluate(decl, op, operands)
            if len(found) != len(op.results):
                raise EgshapeError(f"gives {len(found)} results, not {len(op.results)}", code="inference")
            for value, array in zip(op.results, found, strict=True):
                self.values[value] = array
            for value, array in zip(op.results, found, strict=True):
                self.check_type(value, array)
        except EgshapeError as error:
            raise _placed(error, op) from error
        if self.trace is not None:
            self.trace(op, found)

    def evaluate(self, decl: OpDecl, op: Op, operands: list[np.ndarray]) -> list[np.ndarray]:
        """The results of the op's reference."""
        attrs = {key: self.concrete(attr) for key, attr in op.attrs.items()}
        fixed = len(operands) if decl.variadic else len(decl.operands)
        for key, numbers in zip(decl.dynamic, operands[fixed:], strict=False):
            real = tuple(int(number) for number in numbers.reshape(-1))
            if real != attrs[key]:
                raise EgshapeError(
                    f"{key} is {list(real)} at run time, inferred were {_list(op.attrs[key])} = {list(attrs[key])}",
                    code="inference",
                )
            attrs[key] = real
        if decl.regions:
            attrs["regions"] = self.regions(decl, op)
        try:
            found = decl.reference(*operands[:fixed], **attrs)
        except (ValueError, IndexError) as error:
            shapes = ", ".join(str(list(operand.shape)) for operand in operands)
            raise CheckFailed(f"operands of the shapes {shapes} do not fit together ({error})") from error
        return [np.asarray(array) for array in (found if isinstance(found, list | tuple) else [found])]

    def check_type(self, value: Value, array: np.ndarray) -> None:
        """Hold a type against the real array."""
        if array.dtype != numpy_dtype(value.type.dtype):
            raise EgshapeError(f"%{value.name} is {value.type}, but has elements of {array.dtype}", code="inference")
        if value.type.shape is None:
            return
        wanted = tuple(size.evaluate(self.sizes) for size in value.type.shape)
        if wanted != array.shape:
            negative = [size for size in wanted if size < 0]
            raise EgshapeError(
                f"%{value.name} is inferred as {value.type} = {list(wanted)}, but has the shape {list(array.shape)}",
                code="invalid-size" if negative else "inference",
            )

    # -- relations
    # -------------------------------------------------------------------------------------------------

    def holds(self, relation: Relation) -> bool:
        """Whether a relation holds at the sizes of this run; one that has no value there does not."""
        try:
            return relation.holds(self.sizes)
        except UndefinedSize:
            return False

    def check_required(self, op: Op) -> None:
        """Raise CheckFailed for a relation that the op's types rely on and that is false."""
        for relation in op.requires:
            if not self.holds(relation):
                fits = is_fit(relation.kind, relation.lhs, relation.rhs)
                raise (DoesNotFit if fits else CheckFailed)(
                    f"{relation} does not fit{self._with_sizes(relation)}",
                    hint=f"needed by {relation.source}" if relation.source else "",
                )

    def _with_sizes(self, relation: Relation) -> str:
        names = sorted(relation.symbols())
        return f" at {', '.join(f'{name} = {self.sizes[name]}' for name in names)}" if names else ""

    # -- regions
    # ---------------------------------------------------------------------------------------------------

    def regions(self, decl: OpDecl, op: Op) -> tuple[_Region, ...]:
        """The regions of an op as callables."""
        scalar = decl.family in _FOLDING
        out = []
        for number, block in enumerate(op.regions):
            if block not in self._regions:
                self._regions[block] = (region_kind(block), scalar and _is_elementwise(block, self.registry))
            kind, vectorised = self._regions[block]
            limit = self.max_while if decl.traits.regions == "loop" and number == 0 else None
            out.append(_Region(self, block, kind, vectorised, limit))
        return tuple(out)

    def call(self, block: Block, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run a region on its arguments, with every type checked."""
        with self.block_symbols(block):
            self.values.update(zip(block.args, arrays, strict=True))
            for value, array in zip(block.args, arrays, strict=True):
                self.check_type(value, array)
            self.ops(block.ops)
            return [self.read(value) for value in block.results]

    def call_vectorised(self, block: Block, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run a region of scalars on whole arrays; shapes are those of the arrays and not checked."""
        self.values.update(zip(block.args, arrays, strict=True))
        for op in block.ops:
            operands = [self.read(operand) for operand in op.operands]
            if len({operand.shape for operand in operands}) > 1:
                operands = list(np.broadcast_arrays(*operands))
            (self.values[op.result],) = self.evaluate(self.registry[op.name], op, operands)
        return [self.read(value) for value in block.results]


class _Region:
    """A region as references see it (``egshape.ops.regions``)."""

    def __init__(self, run: _Run, block: Block, kind: str | None, vectorised: bool, limit: int | None) -> None:
        self.kind = kind
        self.vectorised = vectorised
        self.dtypes = [numpy_dtype(value.type.dtype) for value in block.results]
        self._run = run
        self._block = block
        self._limit = limit
        self._calls = 0

    def __call__(self, *arrays: np.ndarray) -> list[np.ndarray]:
        self._calls += 1
        if self._limit is not None and self._calls > self._limit + 1:
            raise EgshapeError(f"the loop ran {self._limit} rounds without an end", code="loop-limit")
        if self.vectorised:
            return self._run.call_vectorised(self._block, arrays)
        return self._run.call(self._block, [np.asarray(array) for array in arrays])


def _placed(error: EgshapeError, op: Op) -> EgshapeError:
    """The error with the op and its location; the innermost op is named."""
    if error.where:
        return error
    name = f"{op.name} %{op.results[0].name}" if op.results else op.name
    where = f"{name} at {op.location}" if str(op.location) else name
    if error.code == "shape-mismatch":
        return CheckFailed(error.message, where=where, hint=error.hint)
    if isinstance(error, CheckFailed) and op.attrs.get("sides") and is_fit(op.attrs["relation"], *op.attrs["sides"]):
        return DoesNotFit(error.message, where=where, hint=error.hint)
    return type(error)(error.message, where=where, hint=error.hint, code=error.code)


def _shown(size: Dim, number: int) -> str:
    return str(number) if size.const is not None else f"{size} = {number}"


def _list(sizes: Sequence[Dim]) -> str:
    return f"[{', '.join(map(str, sizes))}]"


def _is_elementwise(block: Block, registry: Registry) -> bool:
    """True if a region of scalars may be called on whole arrays: every value in it is a scalar, and every
    op is a constant or works element by element."""
    values = [*block.args, *block.results]
    for op in block.ops:
        if op.name != "constant" and registry[op.name].family not in _ELEMENTWISE:
            return False
        values += [*op.operands, *op.results]
    return all(value.type.shape == () for value in values)
