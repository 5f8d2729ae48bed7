"""ONNX out: a graph as a model.

Sizes that the graph holds as attributes become integer nodes here, each distinct value once (``emit_sizes``), and only
where no constant form does: Reshape copies sizes and takes what is left, Expand keeps those that are there, elementwise
ops broadcast by themselves. What came in as one ONNX op goes out as one.

Checks are nodes too (``emit_checks``), or listed in the metadata."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from egshape.dims import Dim, symbol
from egshape.errors import Unsupported
from egshape.facts import Relation
from egshape.frontends.bounds import Bounds
from egshape.frontends.onnx import emit_blocks, emit_composites
from egshape.frontends.onnx.emit_checks import Checks, Unheld
from egshape.frontends.onnx.emit_functions import Functions
from egshape.frontends.onnx.emit_loops import if_, loop, scan, while_
from egshape.frontends.onnx.emit_moves import Moves, Pick, backward, picked, tiles
from egshape.frontends.onnx.emit_ops import ELEMENTWISE
from egshape.frontends.onnx.emit_scope import Frame, Scope
from egshape.frontends.onnx.emit_single import SINGLE
from egshape.frontends.onnx.emit_sizes import Sizes
from egshape.frontends.onnx.kept import keep_names
from egshape.frontends.onnx.own import Own
from egshape.frontends.onnx.rounds import LOOP, SCAN
from egshape.frontends.onnx.structure import TENSOR, sequence_node
from egshape.frontends.onnx.subgraphs import rebind
from egshape.frontends.onnx.types import elem_type_of
from egshape.ir.calls import unread_sizes
from egshape.ir.graph import Block, Graph, Op, Value
from egshape.ir.types import TensorType

SMALL = 16
"""Vectors of at most so many elements count as computations with sizes."""

_LAZY = frozenset(("constant", "broadcast_in_dim", "dims", "get_dimension_size", "iota"))
"""Ops that are written where something reads them."""


class Emitter:
    """Writes blocks as ONNX graphs."""

    def __init__(
        self,
        graph: Graph,
        opset: int,
        first: Scope | None,
        mode: str,
        why: str = "",
        functions: Functions | None = None,
    ) -> None:
        """``first``: what was written without checks, None while that is done. ``mode``: one of ``MODES``; ``why``
        checks are no nodes though that was asked for. ``functions``: those of the model; calls stand in line where
        there are to be none."""
        bounds = Bounds()
        for fact in graph.facts.statements():
            bounds.learn(fact)
        self.scope: Scope = Scope(opset, bounds, self.name)
        self.sizes: Sizes = Sizes(self.scope)
        self.moves: Moves = Moves(self.scope, self.sizes)
        self.checks: Checks = Checks(self.scope, self.sizes)
        self.graph, self.first, self.mode, self.why = graph, first, mode, why
        self.functions = functions
        if first is not None:
            self.scope.wanted = {
                block: [each for each in wanted if (block, each) in first.met] for block, wanted in first.wanted.items()
            }
        self.texts: list[TensorProto] | None = []
        """Constants of text, which are initializers; None in a function, which has none."""
        self.found = False
        """Whether there are checks."""
        self.written: Counter[str] = Counter()
        """How many nodes were written for ops of a location."""
        self.listed: list[str] = []
        """Checks of sizes of inputs that the nodes do not make."""
        self.lost: list[str] = []
        """Notes about checks that are neither nodes nor listed, or not what was asked for."""
        self.picks: dict[Value, Pick] = {}
        """Reshapes that are written together with their operand, a slice."""
        self.backward: dict[Value, Op] = {}
        """Slices that are written together with their operand, a reverse."""
        self.joined: dict[Value, emit_composites.Joined] = {}
        """Additions and reshapes that are written together with their operand, a convolution or a reduction."""
        self.blocks: dict[Value, emit_blocks.Blocks] = {}
        """Concatenations that are written together with their operands, slices."""
        self.padded: dict[Value, Op] = {}
        """Pads that are written together with the convolution or pool that reads them."""
        self._makers: dict[Value, Op] = {}
        self.original = graph.own.model.proto.graph if isinstance(graph.own, Own) else GraphProto()
        """The graph of the file that was read."""
        said = (*self.original.input, *self.original.value_info, *self.original.output)
        self.said: Mapping[str, ValueInfoProto] = {each.name: each for each in said}
        self.ends = {each.name for each in self.original.output}
        if isinstance(graph.own, Own):
            self.scope.said_of(graph.own.small())

    # -- graphs --------------------------------------------------------------------------------------------------

    def graph_proto(self, graph: Graph) -> GraphProto:
        """The outermost graph, without its initializers."""
        names = self.scope.names
        inputs = [names.fresh(value.name) for value in graph.inputs]
        labels = [
            name if value in graph.inputs and value.name == name else self._label(name)
            for value, name in zip(graph.outputs, graph.output_names, strict=True)
        ]
        wanted: dict[Value, str] = {}
        for value, name in zip(graph.outputs, labels, strict=True):
            if value not in graph.inputs:
                wanted.setdefault(value, name)
        frame = self.open(graph.body, inputs)
        self.ops(graph.body, wanted)
        outputs = []
        for value, name in zip(graph.outputs, labels, strict=True):
            if self.name(value) != name:
                frame.nodes.append(_identity(self.name(value), name))
            outputs.append(self.info(name, value))
        self.checks.attach(dict(zip(inputs, graph.inputs, strict=True)), dict(zip(labels, graph.outputs, strict=True)))
        outputs = _structured(graph, outputs, frame)
        self.scope.close()
        shown = {*inputs, *labels}
        renamed = self._kept(graph, frame, shown)
        typed = ((renamed.get(name, name), value) for name, value in frame.typed)
        infos = [self.info(name, value) for name, value in typed if name not in shown]
        arguments = [self.info(name, value) for name, value in zip(inputs, graph.inputs, strict=True)]
        return helper.make_graph(
            frame.nodes,
            graph.name or "graph",
            arguments,
            outputs,
            initializer=self.texts,
            doc_string=self.original.doc_string or None,
            value_info=[info for info in infos if info.name not in self.scope.initializers],
        )

    def _kept(self, graph: Graph, frame: Frame, shown: Collection[str]) -> Mapping[str, str]:
        """Give nodes and values that are as the file had them the names that they have there; which changed."""
        if not isinstance(graph.own, Own):
            return {}
        arrays = self.scope.initializers
        same = {name for name, value in frame.typed if name in shown or name == value.name}
        same.update(name for name, array in arrays.items() if graph.own.holds(name, array))
        return keep_names(frame.nodes, self.original, {*shown, *arrays}, same)

    def function(self, call: Op) -> FunctionProto | None:
        """What an op calls; None where its ops stand in line."""
        return None if self.functions is None else self.functions.of(call, self._bare)

    def _bare(self, graph: Graph) -> tuple[GraphProto, Mapping[str, np.ndarray]]:
        inner = Emitter(graph, self.scope.opset, None, "none", functions=self.functions)
        inner.texts = None
        return inner.graph_proto(graph), inner.scope.initializers

    def behind(
        self, front: Block, nodes: Iterable[NodeProto], graph: Graph, names: Iterable[str]
    ) -> Sequence[NodeProto]:
        """The nodes of a model, whose tensors have these names, behind those of the checks of a block."""
        for name in names:
            self.scope.names.fresh(name)
        inputs = {value.name: value for value in graph.inputs}
        frame = self.open(front, list(inputs))
        self.ops(front, {})
        frame.nodes.extend(nodes)
        self.checks.attach(inputs, dict(zip(graph.output_names, graph.outputs, strict=True)))
        self.scope.close()
        return frame.nodes

    def _label(self, name: str) -> str:
        """The name of an output. ONNX wants it to be no input's."""
        found = self.scope.names.fresh(name)
        if found != name:
            self.lost.append(f"the output {name} is written as {found}: an input has its name")
        return found

    def subgraph(self, block: Block, arguments: Sequence[str], name: str) -> GraphProto:
        """A region as a graph of its own, which sees the names around it."""
        frame = self.open(block, arguments)
        self.ops(block, {})
        outputs = [
            self.info(result, value)
            for result, value in zip(self.results(block.results, name), block.results, strict=True)
        ]
        self.scope.close()
        inputs = [self.info(each, value) for each, value in zip(arguments, block.args, strict=True)]
        return helper.make_graph(frame.nodes, name, inputs, outputs)

    def results(self, values: Sequence[Value], label: str, names: Sequence[str] = ()) -> list[str]:
        """The results of a region, each by a node of the region; the first that can takes its checks along."""
        out: list[str] = []
        for value, name in zip(values, names or map(self.name, values), strict=True):
            hint = f"{label}_{value.name}"
            found = self.checks.joined(name, value, hint) if value.type.shape is not None else name
            own = found not in out and any(found in node.output for node in self.scope.frame.nodes)
            out.append(found if own else self.scope.node("Identity", [name], hint))
        if self.scope.frame.guards or self.scope.frame.entries:
            raise Unheld("a region has no result of known rank to which it could be joined")
        return out

    def open(self, block: Block, arguments: Sequence[str]) -> Frame:
        """Begin a graph whose inputs have these names."""
        frame = Frame(block)
        self.scope.frames.append(frame)
        self._know(block)
        for value, name in zip(block.args, arguments, strict=True):
            self.scope.bind(value, name)
        return frame

    def ops(self, block: Block, wanted: Mapping[Value, str]) -> None:
        """Write the ops of a block; ``wanted`` are the names that results must have."""
        slices: dict[Value, list[Op]] = {}
        parts = {*(pick.part for pick in self.picks.values()), *(each.part for each in self.joined.values())}
        parts |= {*self.backward.values(), *self.padded.values(), *emit_composites.unread(self, block)}
        parts.update(part for each in self.blocks.values() for part in each.parts)
        for op in block.ops:
            if op.name == "slice" and len(op.operands) == 1 and op not in parts:
                slices.setdefault(op.operands[0], []).append(op)
        for op in block.ops:
            if op.name == "check":
                self._check(op)
            elif op not in parts and (not _waits(op) or any(value in wanted for value in op.results)):
                before = len(self.scope.frame.nodes)
                self._op(op, slices.get(op.operands[0], ()) if op.operands else (), wanted)
                self.written[str(op.location)] += len(self.scope.frame.nodes) - before
                for relation in op.requires:
                    self.scope.bounds.learn(relation)

    def inline(self, block: Block) -> None:
        """The ops of a region in place; its arguments have names."""
        self._know(block)
        self.ops(block, {})

    def _know(self, block: Block) -> None:
        self.picks.update(picked(block, self.scope.opset))
        parts = {pick.part.result for pick in self.picks.values()}
        self.backward.update((value, op) for value, op in backward(block).items() if value not in parts)
        for op in block.ops:
            self._makers.update(dict.fromkeys(op.results, op))
            if _waits(op):
                self.scope.waiting.update(op.results)
        self.blocks.update(emit_blocks.blocks(block))
        self.joined.update(emit_composites.joined(self, block))
        self.padded.update(emit_composites.padded(self, block))

    def _check(self, op: Op) -> None:
        """A check as nodes, unless a node makes it anyway, or it is to be listed."""
        self.found = True
        kind = op.attrs["relation"]
        relation = None if kind == "value" else Relation(kind, *op.attrs["sides"])
        if self.first is None:
            if relation is not None and kind in ("<=", "<"):
                self.scope.wanted.setdefault(self.scope.frame.block, []).append(relation)
            return
        block = self.scope.frame.block
        if relation is not None and self.first.makes(block, relation):
            if self.first.read_before(block, relation) and self._may_list(relation):
                self.listed.append(str(relation))
            return
        why = self.why
        if self.mode == "nodes":
            try:
                if relation is None:
                    self.checks.value(op, self.name(op.operands[0]))
                else:
                    self.checks.relation(op)
                return
            except Unheld as reason:
                why = str(reason)
        self._list(relation, op, why)

    def _list(self, relation: Relation | None, op: Op, why: str) -> None:
        """Note a check that the nodes do not make."""
        shown = op.attrs["message"] if relation is None else str(relation)
        if listed := relation is not None and self._may_list(relation):
            self.listed.append(shown)
        if why:
            where = "only listed in the metadata" if listed else "not written"
            self.lost.append(f"the check {shown} is {where}: {why}")
        elif not listed:
            self.lost.append(f"the check {shown} is not written")

    def _may_list(self, relation: Relation) -> bool:
        """Whether the metadata can say a check, which knows the sizes of the outermost graph."""
        outer = self.scope.frames[0]
        return len(self.scope.frames) == 1 and self.mode != "none" and relation.symbols() <= outer.symbols.keys()

    def notes(self, mode: str) -> tuple[str, ...]:
        """What the model does not hold."""
        lost = [
            *self.lost,
            *(f"the function {each.name} is not written: an ONNX model has one graph" for each in self.graph.functions),
        ]
        if mode == "metadata" and self.listed:
            count = len(self.listed)
            return (
                *lost,
                f"{count} check{'s' * (count != 1)} {'are' if count != 1 else 'is'} only listed in the "
                "metadata: no runtime makes them",
            )
        return tuple(lost)

    def _op(self, op: Op, siblings: Sequence[Op], wanted: Mapping[Value, str]) -> None:
        if all(value in self.scope.name_of for value in op.results) and op.results:
            return
        if op.name in _MANY:
            _MANY[op.name](self, op, wanted)
            return
        if len(op.results) != 1:
            raise self.unsupported(op, f"the op {op.name} with {len(op.results)} results")
        if op.result in self.joined:
            held, names = self.joined[op.result], self.fresh_names(op, wanted)
            emit_composites.node(self, held.part, names, held)
            _bound(self, op, names)
            return
        if op.name == "slice" and len(siblings) > 1 and self._tiled(op, siblings, wanted):
            return
        self._single(op, wanted.get(op.result, ""))

    def _single(self, op: Op, wanted: str) -> None:
        """An op with one result."""
        before = len(self.scope.frame.nodes)
        if wanted and op.name == "constant" and self._gives(op, wanted):
            self.scope.bind(op.result, wanted)
            return
        name = self._written(op)
        if wanted and name != wanted:
            nodes, memo = self.scope.frame.nodes, self.scope.frame.memo
            if len(nodes) > before and list(nodes[-1].output) == [name]:
                nodes[-1].output[0] = wanted
                memo.update({key: wanted for key, held in memo.items() if held == name})
            else:
                nodes.append(_identity(name, wanted))
            name = wanted
        self.scope.bind(op.result, name)

    def _gives(self, constant: Op, wanted: str) -> bool:
        """Whether an output is an initializer, which it can be beside an output that takes the checks along."""
        makers = [self._makers.get(value) for value in self.graph.outputs]
        if all(op is not None and op.name == "constant" for op in makers):
            return False
        return self.scope.give(constant.attrs["value"], wanted)

    def _written(self, op: Op) -> str:
        if op.name in ELEMENTWISE:
            return ELEMENTWISE[op.name](self, op)
        if op.name in SINGLE:
            return SINGLE[op.name](self, op)
        raise self.unsupported(op, f"the op {op.name}")

    def _tiled(self, op: Op, siblings: Sequence[Op], wanted: Mapping[Value, str]) -> bool:
        """Slices that tile an axis, as one Split; only where their order in the graph allows it."""
        found = tiles([each for each in siblings if each.result not in self.scope.name_of], op.operands[0])
        if found is None or op not in found[1]:
            return False
        axis, parts = found
        if self.scope.opset < 13 and any(part.result.type.dims[axis].const is None for part in parts):
            return False
        names = [wanted.get(part.result) or self.scope.names.fresh(part.result.name) for part in parts]
        self.moves.split(parts, self.name(op.operands[0]), axis, names)
        for part, name in zip(parts, names, strict=True):
            self.scope.bind(part.result, name)
        return True

    # -- values --------------------------------------------------------------------------------------------------

    def name(self, value: Value) -> str:
        """The name of a value, which is written now if it is one that waits for a reader."""
        found = self.scope.name_of.get(value)
        if found is not None:
            return found
        op = self._makers[value]
        if op.name == "constant":
            found = self.scope.constant(op.attrs["value"], value.name)
            self.scope.name_of[value] = found
            return found
        self._single(op, "")
        return self.scope.name_of[value]

    def producer(self, value: Value) -> Op | None:
        """The op that made a value, None for an argument."""
        return self._makers.get(value)

    def element(self, constant: Op) -> Value:
        """A scalar: the first element of a constant."""
        scalar = Value(constant.result.name, TensorType(constant.result.type.dtype, ()))
        first = constant.attrs["value"].reshape(-1)[:1].reshape(())
        self._makers[scalar] = replace(constant, attrs={"value": first}, results=(scalar,))
        return scalar

    def node(self, op: Op, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        """The node of an op."""
        return self.scope.node(kind, inputs, op.result.name, **attributes)

    def fresh_names(self, op: Op, wanted: Mapping[Value, str]) -> list[str]:
        """Names for the results of an op."""
        return [wanted.get(value) or self.scope.names.fresh(value.name) for value in op.results]

    def info(self, name: str, value: Value) -> ValueInfoProto:
        """The name and type of a tensor. The type says what the file does of what data give, and of an output what it
        says but for sizes that are known to be a number."""
        shape, dtype = value.type.shape, elem_type_of(value.type.dtype)
        file = self.said.get(name, ValueInfoProto())
        held = file.type.tensor_type
        said = held.shape.dim if held.elem_type == dtype and held.HasField("shape") else None
        if shape is None:
            rank: list[int | str | None] | None = None if said is None else [None] * len(said)
        else:
            rank = [size.const if size.const is not None else str(size) for size in shape]
        out = helper.make_tensor_value_info(name, dtype, rank, file.doc_string)
        out.metadata_props.extend(file.metadata_props)
        if said is not None and rank is not None and len(said) == len(rank):
            for place, (axis, told) in enumerate(zip(out.type.tensor_type.shape.dim, said, strict=True)):
                if shape is None or _stays(told, shape[place], name in self.ends):
                    axis.CopyFrom(told)
        return out

    def unsupported(self, op: Op, what: str) -> Unsupported:
        """The error for an op that ONNX has no form of."""
        where = str(op.location) or (f"%{op.results[0].name}" if op.results else op.name)
        return Unsupported(f"{what} has no ONNX form", where=where, hint="save it as .mlir")


def _structured(graph: Graph, outputs: list[ValueInfoProto], frame: Frame) -> list[ValueInfoProto]:
    """The outputs, those that were sequences put together again. Raises Unsupported for an optional one with none."""
    held = graph.metadata if graph.metadata.get("format") == "onnx" else {}
    if "structure" not in held:
        return outputs
    rest, out = iter(outputs), []
    rows = zip(held["outputs"], held["structure"][1], held["sequence_dtypes"], strict=True)
    for (name, _), form, dtype in rows:
        if form is None:
            raise Unsupported(
                "is an optional value that is not there, which is not written",
                where=f"output {name}",
                hint="leave the output out of the model",
            )
        if form == TENSOR:
            out.append(next(rest))
            continue
        node, info = sequence_node(name, [next(rest).name for _ in range(form)], dtype)
        frame.nodes.append(node)
        out.append(info)
    return out


def _stays(told: Any, size: Dim, end: bool) -> bool:
    """Whether what a file says of a size stays: it is data, or one of an output of which no number is known."""
    if any(each.startswith("%") for each in size.symbols()):
        return True
    return end and size.const is None and bool(told.WhichOneof("value"))


def _waits(op: Op) -> bool:
    """Whether an op is written only where something reads it: one that costs less than a tensor, or computes with
    sizes."""
    if op.name in _LAZY:
        return True
    if op.name not in ELEMENTWISE and op.name != "reshape":
        return False
    shape = op.result.type.shape
    return (
        shape is not None and len(shape) < 2 and all(size.const is not None and size.const <= SMALL for size in shape)
    )


def _identity(name: str, wanted: str) -> NodeProto:
    return helper.make_node("Identity", [name], [wanted], name=f"Identity:{wanted}")


# -- ops with any number of results --------------------------------------------------------------------------------


def _bound(e: Emitter, op: Op, names: Sequence[str]) -> None:
    for value, name in zip(op.results, names, strict=True):
        e.scope.bind(value, name)


def _composite(e: Emitter, op: Op, wanted: Mapping[Value, str]) -> None:
    """The ONNX op that it was; another composite, and a call, in parts."""
    if not op.attrs.get("whole") or op.attrs["name"].startswith("aten."):
        _inlined(e, op, wanted)
        return
    held = emit_composites.stands(e, op)
    if held is not None:
        _handed_on(e, [held], op, wanted)
        return
    names = e.fresh_names(op, wanted)
    emit_composites.node(e, op, names)
    _bound(e, op, names)
    if _keeps_its_shape(op):
        e.scope.gives(op.result, e.scope.given(op.operands[0]))


def _keeps_its_shape(op: Op) -> bool:
    """Whether the result of a composite has each axis of its only operand, by sizes that tell axes apart."""
    (region,) = op.regions
    if len(region.args) != 1 or len(region.results) != 1:
        return False
    shape = region.args[0].type.shape
    named = [size for size in shape or () if size.const is None]
    return shape is not None and shape == region.results[0].type.shape and len(set(named)) == len(named)


def _call(e: Emitter, op: Op, wanted: Mapping[Value, str]) -> None:
    """A node that runs a function of the model; its ops where that cannot be written."""
    function, (region,) = e.function(op), op.regions
    if function is None:
        _inlined(e, op, wanted)
        return
    inputs = [*map(e.name, op.operands), *(e.sizes.one(symbol(name)) for name in unread_sizes(region))]
    names = e.fresh_names(op, wanted)
    title = e.scope.titles.fresh(str(op.location) or f"{function.name}:{names[0]}")
    e.scope.frame.nodes.append(helper.make_node(function.name, inputs, names, name=title, domain=function.domain))
    _bound(e, op, names)


def _inlined(e: Emitter, op: Op, wanted: Mapping[Value, str]) -> None:
    (region,) = op.regions
    frame = e.scope.frame
    e.scope.name_of.update({arg: e.name(value) for arg, value in zip(region.args, op.operands, strict=True)})
    frame.symbols.update({each.name: each for each in region.symbols})
    e.inline(region)
    _handed_on(e, region.results, op, wanted)


def _handed_on(e: Emitter, values: Sequence[Value], op: Op, wanted: Mapping[Value, str]) -> None:
    """Let values be the results of an op."""
    for value, result in zip(values, op.results, strict=True):
        name = e.name(value)
        if result in wanted:
            e.scope.frame.nodes.append(_identity(name, wanted[result]))
            name = wanted[result]
        e.scope.bind(result, name)


def _host_call(e: Emitter, op: Op, wanted: Mapping[Value, str]) -> None:
    """The node that the host runs, with our names."""
    kind, payload = op.attrs["call"]
    if kind != "onnx":
        raise e.unsupported(op, f"a host call of {op.attrs['target']}")
    held = ModelProto.FromString(base64.b64decode(payload)).graph
    (inside,) = held.node
    names = e.fresh_names(op, wanted)
    if e.texts is not None and inside.op_type == "Constant" and inside.attribute[0].name == "value":
        e.texts.append(inside.attribute[0].t)
        e.texts[-1].name = names[0]
        _bound(e, op, names)
        return
    outputs = iter(names)
    given = {info.name: e.name(value) for info, value in zip(held.input, op.operands, strict=True)}
    inside.input[:] = [given[name] if name else "" for name in inside.input]
    inside.output[:] = [next(outputs) if name else "" for name in inside.output]
    inside.name = e.scope.titles.fresh(str(op.location))
    rebind(inside, given, e.scope.names.fresh)
    e.scope.frame.nodes.append(inside)
    _bound(e, op, names)


_CONTROL = {"if": if_, "while": while_, LOOP: loop, SCAN: scan}


def _control(e: Emitter, op: Op, wanted: Mapping[Value, str]) -> None:
    _bound(e, op, _CONTROL[op.name](e, op, wanted))


_MANY = {
    "call": _call,
    "composite": _composite,
    "host_call": _host_call,
    "host_effect": _host_call,
    **dict.fromkeys(_CONTROL, _control),
}
