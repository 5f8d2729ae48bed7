"""From a graph to a host program of kernels: which values get a buffer, and in which order things run.

A value gets a buffer where its op is a root (reduction, contraction, sort, ...), where control flow or an output
needs it, or where reading it again at each use costs more than memory does; all else is read through."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

from egshape.dims import Dim, ceildiv, const, maximum, minimum, product, symbol
from egshape.dims.core import is_nonnegative, is_positive
from egshape.errors import Unsupported
from egshape.facts import Relation, parse_facts
from egshape.ir.graph import Block, Graph, Op, SymbolDef, Value
from egshape.ops.host import HOST_CALLS
from egshape.plan import attention, contraction, convolution, convolution_bytes, epilogue, integers, rows, updates
from egshape.plan.collapse import collapsed
from egshape.plan.conditions import conditions
from egshape.plan.fusion import fused
from egshape.plan.gpu import flash, products
from egshape.plan.inlined import inlined
from egshape.plan.loops import Buffer, Kernel, Loop, Stmt, Store, dims, linear
from egshape.plan.memory import constants
from egshape.plan.pieces import in_pieces
from egshape.plan.program import (
    BindSize,
    CheckSizes,
    CheckValue,
    Copy,
    DefineSize,
    Port,
    Program,
    Run,
    Step,
)
from egshape.plan.reader import (
    READERS,
    ZERO,
    Indices,
    Reader,
    is_elementwise,
    place,
    reshape_is_affine,
    shape_of,
    unsupported,
)
from egshape.plan.signed import halves, signed
from egshape.plan.tiles import tiled
from egshape.plan.visit import Moved

LARGEST_TREE = 60
"""Values whose expression has more ops than this get a buffer, which bounds the size of a kernel."""

CHEAP_INDEX = 4
"""Work up to which an index is computed anew for each element that is read by it."""

_HEAVY = frozenset((
    "exponential", "exponential_minus_one", "log", "log_plus_one", "logistic", "tanh", "tan", "sine", "cosine",
    "power", "cbrt", "erf", "erfc", "atan2", "lgamma", "remainder", "sinh", "cosh", "asin", "acos", "atan", "asinh",
    "acosh", "atanh"))
_MIDDLE = frozenset(("divide", "sqrt", "rsqrt"))
_FREE = frozenset(("constant", "iota", "dims", "get_dimension_size"))


class Planner(Reader):
    """Walks a graph in program order and collects steps."""

    def __init__(self, graph: Graph, facts: str = "all", target: str = "llvm") -> None:
        super().__init__(facts)
        self.graph = graph
        self.target = target
        self.steps: list[Step] = []
        self.uses: Counter[Value] = Counter()
        self.definitions: dict[Value, list[SymbolDef]] = {}
        self.costs: dict[Value, tuple[int, int]] = {}
        self.outputs: dict[Value, Buffer] = {}
        self.clusters: dict[Op, rows.Cluster | epilogue.Cluster | attention.Cluster | flash.Cluster] = {}
        self.readers: dict[Block, epilogue.Readers] = {}
        self.packed: dict[tuple[object, ...], Buffer] = {}
        """Constant right operands of products in panels."""
        self.widening: set[Op] = set()
        """Ops that make i32 of the bytes that products read."""
        self.waiting: set[Value] = set()
        """Results of row kernels that are not written yet."""
        self.buffer_names: Counter[str] = Counter()
        self.position = graph.body, 0
        """The op that is planned now: its block and its number there."""

    # -- the whole ------------------------------------------------------------------------------------------------

    def plan(self) -> Program:
        """The program of the graph. Raises Unsupported for what is not compiled."""
        body = self.graph.body
        inputs = tuple(self._input(value) for value in body.args)
        symbols = self._input_symbols()
        self._entry_checks()
        for name, value in zip(self.graph.output_names, body.results, strict=True):
            if value not in self.outputs and value not in body.args:
                self.outputs[value] = Buffer(name, value.type.dtype, product(_sizes(value)), "output")
        self.block(body)
        outputs = tuple(self._output(name, value) for name, value in
                        zip(self.graph.output_names, body.results, strict=True))
        steps = fused(self.steps, self.target != "llvm") if self.known.forms else tuple(self.steps)
        return Program(self.graph.name, inputs, outputs, symbols, steps, constants(steps))

    def _input(self, value: Value) -> Port:
        sizes = _sizes(value)
        buffer = Buffer(value.name, value.type.dtype, product(sizes), "input")
        self.places[value] = buffer
        return Port(value.name, buffer, sizes)

    def _input_symbols(self) -> dict[str, tuple[int, int, int, int]]:
        args = self.graph.body.args
        found = {each.name: (args.index(each.value), each.axis, 1, 0)
                 for each in self.graph.body.symbols if each.value in args and each.axis is not None}
        axes = [(number, axis, size) for number, value in enumerate(args) for axis, size in enumerate(_sizes(value))]
        for number, axis, size in sorted(axes, key=lambda item: len(item[2].terms)):
            names = size.symbols() - found.keys()
            if len(names) == 1 and size.symbols() == names:
                (name,) = names
                offset = size.substitute({name: 0}).const or 0
                factor = (size.substitute({name: 1}).const or 0) - offset
                if factor > 0 and size is symbol(name) * factor + offset:
                    found[name] = number, axis, factor, offset
        return found

    def _entry_checks(self) -> None:
        """Assumed facts hold or the program stops; a fact may name an input's axis by its place (``arg0.1``)."""
        axes = {f"{value.name}.{axis}": size
                for value in self.graph.body.args for axis, size in enumerate(_sizes(value))}
        own = {each.name for each in self.graph.body.symbols}
        rename = {name: size for name, size in axes.items() if name not in own}
        for fact in self.graph.facts.assumed:
            for given in parse_facts(fact):
                if isinstance(given, Relation):
                    message = f"the inputs do not fit the assumed fact {given.text}"
                    for kind, lhs, rhs in _comparisons(given.substitute(rename)):
                        self.check(CheckSizes(kind, lhs, rhs, message))

    def _output(self, name: str, value: Value) -> Port:
        sizes = _sizes(value)
        buffer = self.outputs.pop(value, None)
        if buffer is None or self.places.get(self.root(value)) is not buffer:
            buffer = Buffer(name, value.type.dtype, product(sizes), "output")
            self.store(value, buffer)
        return Port(name, buffer, sizes)

    # -- blocks ---------------------------------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        """Plan the ops of a block in order."""
        for op in block.ops:
            for operand in dict.fromkeys(op.operands):
                self.uses[operand] += 1
            for region in op.regions:
                for value in region.captures():
                    self.uses[value] += 2
        for value in block.results:
            self.uses[value] += 1
        defined = {value for op in block.ops for value in op.results}
        for each in block.symbols:
            self.definitions.setdefault(each.value, []).append(each)
            if each.value not in defined and each.element is not None:
                self.define(each, self.producers.get(each.value))
        if self.target == "llvm":
            self.widening.update(integers.widening(block))
        for number, op in enumerate(block.ops):
            self.op(op, block, number)

    def op(self, op: Op, block: Block, number: int) -> None:
        """Plan one op: its conditions, its results, the sizes that they define."""
        from egshape.plan import control, roots

        self.position = block, number
        for relation in op.requires:
            for kind, lhs, rhs in _comparisons(relation):
                self.check(CheckSizes(kind, lhs, rhs, f"{relation} does not fit", where=place(op)))
        if op.name == "check":
            self._check(op)
            return
        for value in op.operands:
            shape_of(value, op)
        for value in op.results:
            shape_of(value, op)
        for condition in conditions(op):
            self.check(condition)
        self._sliced(op)
        if op not in self.clusters and self._panels(op):
            self._product(block, number)
        if op in self.clusters or (rows.is_row_reduce(op) and self._cluster(block, number)):
            self._member(op)
        elif op.name == "dynamic_update_slice" and updates.in_place(self, op):
            pass
        elif op.name == "optimization_barrier":
            self.same.update(zip(op.results, op.operands, strict=True))
        elif op.name in READERS or is_elementwise(op):
            self.producers[op.result] = op
            if op in self.widening and op.result not in self.outputs:
                pass  # products read the bytes
            elif is_elementwise(op) and self._costly(op) and self._cluster(block, number):
                self._member(op)
            else:
                self._settle(op)
        elif op.name in roots.ROOTS:
            roots.ROOTS[op.name](self, op)
        elif op.name in control.CONTROL:
            control.CONTROL[op.name](self, op)
        else:
            raise unsupported(op, "is not compiled")
        for value in op.results:
            for definition in self.definitions.get(value, ()):
                self.define(definition, op)

    def _cluster(self, block: Block, number: int) -> bool:
        """Open the row kernel that begins at an op, if there is one."""
        if not self.known.forms:
            return False
        found = rows.find(block, number, self.clusters, self.waiting, self.widening)
        if found is None:
            return False
        self.clusters.update(dict.fromkeys(found.ops, found))
        self.waiting.update(op.result for op in found.ops)
        return True

    def _panels(self, op: Op) -> bool:
        """Whether an op is computed by panels of products, or by what a GPU has for them."""
        if self.target != "llvm":
            return products.is_product(op)
        return (
            contraction.is_product(op) or convolution.is_product(op) or integers.is_product(self, op)
            or convolution_bytes.is_product(self, op))

    def _product(self, block: Block, number: int) -> None:
        """Open the cluster of a product, or of the attention that begins with it."""
        if block not in self.readers:
            self.readers[block] = epilogue.readers(block)
        uses = self.readers[block]
        place = block, number, uses, self.clusters, self.waiting
        if self.target != "llvm":
            found: epilogue.Cluster | attention.Cluster | flash.Cluster = \
                flash.find(self, *place) or products.find(self, *place)
        else:
            found = (attention.find(*place) if self.known.forms else None) or epilogue.find(*place)
        self.clusters.update(dict.fromkeys(found.ops, found))
        self.waiting.update(op.result for op in found.ops)

    def _member(self, op: Op) -> None:
        """An op of a row kernel; with the last one the kernel is written."""
        self.producers[op.result] = op
        if self.clusters[op].ops[-1] is op:
            self.clusters[op].emit(self)
            self.waiting.difference_update(each.result for each in self.clusters[op].ops)

    def check(self, step: CheckSizes) -> None:
        """Add a check unless the sizes show by their form that it holds."""
        gap = step.rhs - step.lhs
        if (step.relation == "==" and gap is ZERO) or (step.relation == "<=" and is_nonnegative(gap)):
            return
        if step.relation in ("<", "!=") and is_positive(gap):
            return
        self.steps.append(step)
        self.known.checked(Relation(step.relation, step.lhs, step.rhs))

    def _check(self, op: Op) -> None:
        a = op.attrs
        message, args, where = a["message"], tuple(a.get("args", ())), place(op)
        if a["relation"] == "value":
            value, *shown = (self.buffer(x) for x in op.operands)
            self.steps.append(CheckValue(value, message, tuple(shown), args, where))
        else:
            lhs, rhs = a["sides"]
            self.steps.append(CheckSizes(a["relation"], lhs, rhs, message, args, where))
            self.known.checked(Relation(a["relation"], lhs, rhs))

    def _sliced(self, op: Op) -> None:
        """Bind the sizes of a slice that have no name of their own, before its elements are stored."""
        axes = [each for each in self.definitions.get(op.results[0], ()) if each.axis is not None] \
            if op.name == "slice" else []
        for each in axes:
            start, limit, stride = (op.attrs[key][each.axis] for key in ("starts", "limits", "strides"))
            self.steps.append(DefineSize(each.name, ceildiv(limit - start, stride)))

    def define(self, definition: SymbolDef, op: Op | None) -> None:
        """Bind a symbol that a value defines."""
        where = place(op) if op is not None else ""
        if definition.element is not None:
            buffer = self.buffer(definition.value)
            self.steps.append(BindSize(definition.name, buffer, definition.element, definition.offset, where))
            self.steps += [DefineSize(name, size) for name, size in halves(definition)]
            return
        axis = definition.axis
        assert axis is not None
        if op is not None and op.name in (*HOST_CALLS, "composite", "if", "case", "slice"):
            return  # its steps define it
        if op is not None and op.name == "while":
            inside = op.regions[1].args[op.results.index(definition.value)]
            self.steps.append(DefineSize(definition.name, inside.type.dims[axis]))
            return
        raise Unsupported(f"the size {definition.name!r} is known only once %{definition.value.name} is computed",
                          where=where, hint="the target 'interpret' runs it")

    # -- buffers --------------------------------------------------------------------------------------------------

    def new_buffer(self, value: Value) -> Buffer:
        """The buffer that a value is going to be written to; it is where the value lies from now on."""
        if value in self.outputs:
            return self.outputs[value]
        return self.scratch(value.name, value.type.dtype, product(_sizes(value)))

    def scratch(self, name: str, dtype: str, size: Dim) -> Buffer:
        """A buffer of the program's own."""
        self.buffer_names[name] += 1
        return Buffer(f"{name}.{self.buffer_names[name]}", dtype, size, "temp")

    def buffer(self, value: Value) -> Buffer:
        """The buffer of a value, which is computed now if it has none."""
        value = self.root(value)
        if value not in self.places:
            op = self.producers[value]
            if op.name == "constant":
                return self.constant(op)
            inner = self.root(op.operands[0]) if op.name == "reshape" and value not in self.outputs else None
            if inner is not None and (inner in self.places or self.arrays.of(inner) is not None):
                self.places[value] = self.buffer(inner)
            elif value not in self.outputs and self.arrays.of(value) is not None:
                self.places[value] = self.folded(value)
            else:
                target = self.new_buffer(value)
                self.store(value, target)
                self.places[value] = target
        return self.places[value]

    def store(self, value: Value, target: Buffer) -> None:
        """Write a value to a buffer."""
        value = self.root(value)
        sizes = _sizes(value)
        if value in self.places:
            self.steps.append(Copy(self.places[value], target))
            return
        op = self.producers[value]
        if op.name == "dynamic_update_slice":
            updates.copied(self, op, target)
            return
        self.start()
        at, wrap = self.nest(sizes)
        nest = wrap([Store(target, linear(at, sizes), self.read(value, at))])
        pieces = self.known.forms and self.target == "llvm"  # a thread of a GPU has its own test, a block its tile
        for part in collapsed(in_pieces(nest)) if pieces else nest:
            self.run(op.name, (tiled(part) if pieces else part,), (target,), once=True, where=place(op))

    def nest(self, sizes: Sequence[Dim]) -> tuple[Indices, _Wrap]:
        """Loop indices over the sizes, and what puts statements into these loops."""
        names = [None if size.const == 1 else self.name("i") for size in sizes]
        at = tuple(ZERO if name is None else symbol(name) for name in names)
        return at, _Wrap(tuple((name, size) for name, size in zip(names, sizes, strict=True) if name is not None))

    def run(self, label: str, body: Sequence[Stmt], outputs: tuple[Buffer, ...],
            private: tuple[Buffer, ...] = (), once: bool = False, where: str = "") -> None:
        """Add a kernel; ``private``: scratch that each iteration of its outer loops writes before it reads; ``once``:
        each element of the outputs is stored by one of these iterations; ``where``: the op that it computes, if that
        is not the one that is planned now."""
        same = Moved(self.known.same()).body(tuple(body))
        merged = collapsed(same) if self.known.forms else same
        names = {name for dim in dims(merged) for name in dim.symbols()}
        block, number = self.position
        where = where or (place(block.ops[number]) if block.ops else "")
        self.steps.append(Run(Kernel(label, merged, outputs, private, once, self.known.bounds(sorted(names)), where)))

    # -- decisions ------------------------------------------------------------------------------------------------

    def _settle(self, op: Op) -> None:
        """Give the result of an op that can be read through a buffer where it should have one."""
        value = op.result
        if op.name == "reshape" and not self._reshape_reads(op):
            inner = self.root(op.operands[0])
            if value in self.outputs and inner not in self.places and inner not in self.outputs \
                    and self.producers[inner].name != "constant":
                self.outputs[inner] = self.outputs[value]
            source = self.buffer(inner)
            self.places[value] = source if value not in self.outputs else self.new_buffer(value)
            if self.places[value] is not source:
                self.steps.append(Copy(source, self.places[value]))
            return
        if op.name == "gather" and self.target == "llvm" and op.attrs["offset_dims"] \
                and self.cost(op.operands[1])[0] > CHEAP_INDEX:
            self.buffer(op.operands[1])  # the indices are read for many elements each
        if value in self.outputs or self._costly(op) or (op.name == "gather" and self.uses[value] > 1):
            self.buffer(value)

    def _costly(self, op: Op) -> bool:
        """Whether reading the result again at each use costs more than a buffer."""
        cost, tree = self.cost(op.result)
        return tree > LARGEST_TREE or (self.uses[op.result] > 1 and cost > 2)

    def _reshape_reads(self, op: Op) -> bool:
        source = self.root(op.operands[0])
        if source in self.places or not self.known.forms:
            return False
        return reshape_is_affine(source.type.dims, op.result.type.dims) and self.producers[source].name != "constant"

    def cost(self, value: Value) -> tuple[int, int]:
        """Work to read an element of a value, and the number of ops in its expression."""
        value = self.root(value)
        if value in self.places:
            return 0, 0
        if value not in self.costs:
            op = self.producers[value]
            inner = [self.cost(x) for x in op.operands]
            own = 8 if op.name in _HEAVY else 3 if op.name in _MIDDLE else 1 if is_elementwise(op) else 0
            own += 2 if op.name in ("gather", "dynamic_slice", "dynamic_update_slice") else 0
            self.costs[value] = own + sum(c for c, _ in inner), (op.name not in _FREE) + sum(t for _, t in inner)
        return self.costs[value]

    @contextmanager
    def branch(self) -> Iterator[list[Step]]:
        """Collect steps that may not run: what gets a buffer inside has none outside."""
        steps, places, costs, known = self.steps, dict(self.places), dict(self.costs), self.known
        self.steps, self.known = [], known.copy()
        yield self.steps
        self.steps, self.places, self.costs, self.known = steps, places, costs, known


def _comparisons(relation: Relation) -> Iterator[tuple[str, Dim, Dim]]:
    """A relation as comparisons; a gap [a, b] between intervals is min(max(n-(a-1), 0), max(b+1-n, 0)) == 0."""
    if relation.kind != "in":
        yield relation.kind, relation.lhs, relation.rhs
        return
    size, (low, _), (_, high) = relation.lhs, relation.ranges[0], relation.ranges[-1]
    if low is not None:
        yield "<=", const(low), size
    if high is not None:
        yield "<=", size, const(high)
    for (_, end), (start, _) in pairwise(relation.ranges):
        if end is not None and start is not None:
            yield "==", minimum(maximum(size - end, 0), maximum(start - size, 0)), ZERO


class _Wrap:
    """Puts statements into a nest of loops."""

    def __init__(self, loops: tuple[tuple[str, Dim], ...]) -> None:
        self.loops = loops

    def __call__(self, body: Sequence[Stmt]) -> tuple[Stmt, ...]:
        for name, size in reversed(self.loops):
            body = (Loop(name, size, tuple(body)),)
        return tuple(body)


def _sizes(value: Value) -> tuple[Dim, ...]:
    if value.type.shape is None:
        raise Unsupported(f"%{value.name} has no rank, native code needs one", where=f"%{value.name}",
                          hint="the target 'interpret' runs it")
    if value.type.dtype in ("c64", "c128"):
        raise Unsupported(f"complex numbers ({value.type}) are not compiled", where=f"%{value.name}",
                          hint="the target 'interpret' runs it")
    return value.type.shape


def plan(graph: Graph, facts: str = "all", target: str = "llvm") -> Program:
    """The host program of a graph. ``facts``: how much of what is known about sizes is used (``known.Level``);
    ``target``: ``llvm``, where products are panels, or ``cuda``. Raises Unsupported, naming op and location, for what
    is not compiled."""
    return Planner(signed(inlined(graph)), facts, target).plan()

