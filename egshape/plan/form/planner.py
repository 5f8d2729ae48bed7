"""From a graph to a host program of kernels: which values get a buffer, and in which order things run.

A value gets a buffer where its op is a root (reduction, contraction, sort, ...), where control flow or an output
needs it, or where reading it again at each use costs more than memory does; all else is read through."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise, takewhile

from egshape.dims import Dim, ceildiv, const, maximum, minimum, product, symbol
from egshape.errors import Unsupported
from egshape.facts import Relation, parse_facts
from egshape.ir.graph import Block, Graph, Op, SymbolDef, Value
from egshape.ops.host import HOST_CALLS
from egshape.plan.analysis.conditions import conditions
from egshape.plan.analysis.elements import ZERO, is_elementwise, place, reshape_is_affine, shape_of, unsupported
from egshape.plan.analysis.memory import constants
from egshape.plan.form import control, donated, emitters, epilogue, regroup, rows, updates
from egshape.plan.form.fusion import fused
from egshape.plan.form.movement import READERS
from egshape.plan.form.signed import halves
from egshape.plan.form.steps import Cluster, Steps, Target, sizes_of
from egshape.plan.ir.loops import Buffer
from egshape.plan.ir.program import (
    BindSize,
    CheckSizes,
    CheckValue,
    Copy,
    DefineSize,
    Port,
    Program,
)

LARGEST_TREE = 60
"""Values whose expression has more ops than this get a buffer, which bounds the size of a kernel."""

CHEAP_INDEX = 4
"""Work up to which an index is computed anew for each element that is read by it."""


class Planner(Steps):
    """Walks a graph in program order and collects steps."""

    def __init__(self, graph: Graph, target: Target, facts: str = "all") -> None:
        super().__init__(graph, target, facts)
        self.uses: Counter[Value] = Counter()
        self.widening: set[Op] = set()
        """Ops that make i32 of the bytes that products read."""
        self.entry: dict[str, tuple[int, int, int, int]] = {}
        """The symbols of input axes: ``Program.symbols``."""

    # -- the whole ------------------------------------------------------------------------------------------------

    def plan(self) -> Program:
        """The program of the graph. Raises Unsupported for what is not compiled."""
        inputs = tuple(self._input(value) for value in self.graph.body.args)
        self.entry.update(self._input_symbols())
        self._entry_checks()
        self._settle_entry()
        body = self.graph.body
        named = tuple(zip(self.graph.output_names, body.results, strict=True))
        over = donated.updates_of(body) if self.target.moves_memory else {}
        for name, value in named:
            if value not in self.outputs and value not in body.args:
                buffer = Buffer(name, value.type.dtype, product(sizes_of(value)), "output")
                if value in over:
                    self.donated[over[value]] = buffer
                else:
                    self.outputs[value] = buffer
        for value, buffer in self.donated.items():
            self.store(value, buffer)
            self.places[value] = buffer
        self.block(body)
        made = {name: self._output(name, value) for name, value in named if value not in over}
        made |= self._given_back(over, {value: name for name, value in named})
        outputs = tuple(made[name] for name in self.graph.output_names)
        steps = fused(self.steps, not self.target.in_order) if self.known.forms else tuple(self.steps)
        return Program(self.graph.name, inputs, outputs, self.entry, steps, constants(steps))

    def _input(self, value: Value) -> Port:
        sizes = sizes_of(value)
        buffer = Buffer(value.name, value.type.dtype, product(sizes), "input")
        self.places[value] = buffer
        return Port(value.name, buffer, sizes)

    def _input_symbols(self) -> dict[str, tuple[int, int, int, int]]:
        args = self.graph.body.args
        found = {
            each.name: (args.index(each.value), each.axis, 1, 0)
            for each in self.graph.body.symbols
            if each.value in args and each.axis is not None
        }
        axes = [(number, axis, size) for number, value in enumerate(args) for axis, size in enumerate(sizes_of(value))]
        for number, axis, size in sorted(axes, key=lambda item: len(item[2].terms)):
            names = size.symbols() - found.keys()
            if len(names) == 1 and size.symbols() == names:
                (name,) = names
                offset = size.substitute({name: 0}).const or 0
                factor = (size.substitute({name: 1}).const or 0) - offset
                if factor > 0 and size is symbol(name) * factor + offset:
                    found[name] = number, axis, factor, offset
        return found | {
            _axis_name(args[number], axis): (number, axis, 1, 0)
            for number, axis, size in axes
            if not size.symbols() <= found.keys()
        }

    def _told_axes(self) -> None:
        """Hold axes of inputs to sizes that are known only once elements of inputs are read."""
        for value in self.graph.body.args:
            for axis, size in enumerate(sizes_of(value)):
                if not size.symbols() <= self.entry.keys():
                    real = symbol(_axis_name(value, axis))
                    message = f"axis {axis} of input {value.name!r} has size {{0}}, its type wants {size} = {{1}}"
                    self.check(CheckSizes("==", real, size, message, (real, size)))

    def _entry_checks(self) -> None:
        """Assumed facts hold or the program stops; a fact may name an input's axis by its place (``arg0.1``)."""
        axes = {
            f"{value.name}.{axis}": size for value in self.graph.body.args for axis, size in enumerate(sizes_of(value))
        }
        own = {each.name for each in self.graph.body.symbols}
        rename = {name: size for name, size in axes.items() if name not in own}
        for fact in self.graph.facts.assumed:
            for given in parse_facts(fact):
                if isinstance(given, Relation):
                    message = f"the inputs do not fit the assumed fact {given.text}"
                    for kind, lhs, rhs in _comparisons(given.substitute(rename)):
                        self.check(CheckSizes(kind, lhs, rhs, message))

    def _settle_entry(self) -> None:
        """Make the checks that the graph begins with, and put what they say a size of the inputs is in its place
        everywhere: kernels are chosen by numbers."""
        body = self.graph.body
        first = list(takewhile(self._is_of_entry, body.ops))
        for op in first:
            self._check(op)
        rest = replace(body, ops=body.ops[len(first) :])
        settled = self.settled(rest, self.entry)
        self.places = {new: self.places[old] for old, new in zip(body.args, settled.args, strict=True)}
        self.graph = replace(self.graph, body=settled)

    def _is_of_entry(self, op: Op) -> bool:
        """Whether an op is a check of sizes that the axes of inputs tell."""
        sizes = (*op.attrs.get("sides", ()), *op.attrs.get("args", ()))
        return op.name == "check" and not op.operands and all(each.symbols() <= self.entry.keys() for each in sizes)

    def _output(self, name: str, value: Value) -> Port:
        sizes = sizes_of(value)
        buffer = self.outputs.pop(value, None)
        if buffer is None or self.places.get(self.resolved(value)) is not buffer:
            buffer = Buffer(name, value.type.dtype, product(sizes), "output")
            self.store(value, buffer)
        return Port(name, buffer, sizes)

    def _given_back(self, over: Mapping[Value, Value], names: Mapping[Value, str]) -> dict[str, Port]:
        """The outputs that lie where inputs do, copied there if they were made elsewhere: as if all at once."""
        places = {value: self.donated[given] for value, given in over.items()}
        moved = [(self.buffer(value), target) for value, target in places.items()]
        for source, target in moved:
            if source is not target:
                self.steps.append(Copy(source, target))
        return {
            names[value]: Port(names[value], target, sizes_of(value), over[value].name)
            for value, target in places.items()
        }

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
        if block is self.graph.body:
            self._told_axes()
        self.widening.update(self.target.widening(block))
        for cluster in self.target.recurrences(self, block):
            self._opened(cluster)
        for number, op in enumerate(block.ops):
            self.op(op, block, number)

    def op(self, op: Op, block: Block, number: int) -> None:
        """Plan one op: its conditions, its results, the sizes that they define."""
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
        if op not in self.clusters and self.target.is_product(self, op):
            self._product(block, number)
        self._chain(block, number)
        if op in self.clusters or (rows.is_row_reduce(op) and self._cluster(block, number)):
            self._member(op)
        elif op.name == "dynamic_update_slice" and updates.in_place(self, op):
            pass
        elif op in self.appended:
            updates.append(self, op, self.appended[op])
        elif op.name == "optimization_barrier":
            self.same.update(zip(op.results, op.operands, strict=True))
        elif op.name in READERS or is_elementwise(op):
            self.producers[op.result] = op
            if op in self.widening and op.result not in self.outputs and self._reads_through(op):
                pass  # products read the bytes
            elif is_elementwise(op) and self._costly(op) and self._cluster(block, number):
                self._member(op)
            else:
                self._settle(op)
        elif op.name in emitters.EMITTERS:
            emitters.EMITTERS[op.name](self, op)
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
        self._opened(found)
        return True

    def _chain(self, block: Block, number: int) -> None:
        """Open the kernel of elementwise work around the reshape that an op is."""
        found = None if block.ops[number] in self.clusters else regroup.find(self, block, number)
        if found is not None and self.widening.isdisjoint(found.ops):
            self._opened(found)

    def _product(self, block: Block, number: int) -> None:
        """Open the cluster of a product, or of the attention that begins with it."""
        if block not in self.readers:
            self.readers[block] = epilogue.readers(block)
        found = self.target.product(self, block, number, self.readers[block], self.clusters, self.waiting)
        self._opened(found)

    def _opened(self, cluster: Cluster) -> None:
        """Plan the ops of a cluster where its last one stands."""
        self.clusters.update(dict.fromkeys(cluster.ops, cluster))
        self.waiting.update(value for op in cluster.ops for value in op.results)

    def _member(self, op: Op) -> None:
        """An op of a cluster; with the last one its kernels are written."""
        self.producers.update(dict.fromkeys(op.results, op))
        if self.clusters[op].ops[-1] is op:
            self.clusters[op].emit(self)
            self.waiting.difference_update(value for each in self.clusters[op].ops for value in each.results)

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
        axes = (
            [each for each in self.definitions.get(op.results[0], ()) if each.axis is not None]
            if op.name == "slice"
            else []
        )
        for each in axes:
            start, limit, stride = (op.attrs[key][each.axis] for key in ("starts", "limits", "strides"))
            self.steps.append(DefineSize(each.name, ceildiv(limit - start, stride)))

    def define(self, definition: SymbolDef, op: Op | None) -> None:
        """Bind a symbol that a value defines."""
        where = place(op) if op is not None else ""
        if definition.element is not None:
            buffer, name = self.buffer(definition.value), definition.name
            told = f"{name}'" if name in self.entry else name
            self.steps.append(BindSize(told, buffer, definition.element, definition.offset, where))
            if told != name:  # an axis of an input says it too
                sizes = symbol(name), symbol(told)
                message = (
                    f"{name} is {{0}} by the sizes of the inputs, but {{1}} by what {definition.value.name!r} holds"
                )
                self.check(CheckSizes("==", *sizes, message, sizes))
            self.steps += [DefineSize(name, size) for name, size in halves(definition)]
            return
        axis = definition.axis
        assert axis is not None
        if op is not None and op.name in (*HOST_CALLS, "call", "composite", "if", "case", "slice"):
            return  # its steps define it
        if op is not None and op.name == "while":
            inside = op.regions[1].args[op.results.index(definition.value)]
            self.steps.append(DefineSize(definition.name, inside.type.dims[axis]))
            return
        raise Unsupported(
            f"the size {definition.name!r} is known only once %{definition.value.name} is computed",
            where=where,
            hint="the target 'interpret' runs it",
        )

    def store(self, value: Value, target: Buffer) -> None:
        """Write a value to a buffer."""
        value = self.resolved(value)
        if value not in self.places and self.producers[value].name == "dynamic_update_slice":
            updates.copied(self, self.producers[value], target)
        else:
            super().store(value, target)

    # -- decisions ------------------------------------------------------------------------------------------------

    def _settle(self, op: Op) -> None:
        """Give the result of an op that can be read through a buffer where it should have one."""
        value = op.result
        if not self._reads_through(op):
            inner = self.resolved(op.operands[0])
            if (
                value in self.outputs
                and inner not in self.places
                and inner not in self.outputs
                and self.producers[inner].name != "constant"
            ):
                self.outputs[inner] = self.outputs[value]
            source = self.buffer(inner)
            self.places[value] = source if value not in self.outputs else self.new_buffer(value)
            if self.places[value] is not source:
                self.steps.append(Copy(source, self.places[value]))
            return
        if (
            op.name == "gather"
            and self.target.in_order
            and op.attrs["offset_dims"]
            and self.cost(op.operands[1])[0] > CHEAP_INDEX
        ):
            self.buffer(op.operands[1])  # the indices are read for many elements each
        if value in self.outputs or self._costly(op) or (op.name == "gather" and self.uses[value] > 1):
            self.buffer(value)

    def _costly(self, op: Op) -> bool:
        """Whether reading the result again at each use costs more than a buffer."""
        cost, tree = self.cost(op.result)
        return tree > LARGEST_TREE or (self.uses[op.result] > 1 and cost > 2)

    def _reads_through(self, op: Op) -> bool:
        """Whether who reads the result may read the operand instead."""
        if op.name != "reshape":
            return True
        source = self.resolved(op.operands[0])
        if source in self.places or not self.known.forms:
            return False
        return reshape_is_affine(source.type.dims, op.result.type.dims) and self.producers[source].name != "constant"


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


def _axis_name(value: Value, axis: int) -> str:
    """The symbol of the real size of an input's axis, where its type says it in terms of elements."""
    return f"{value.name}.{axis}'"
