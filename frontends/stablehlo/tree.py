"""The module as plain Python, read once from MLIR however often a function is inlined."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

from egshape.errors import ParseError, Unsupported
from egshape.frontends.calls import LEAST_SHARED, called_often
from egshape.frontends.stablehlo.attributes import Reader, TensorInfo
from egshape.frontends.stablehlo.blocks import BIND, EXIT, Jump, Piece, structured
from egshape.frontends.stablehlo.bounded import is_outlined, outline
from egshape.frontends.stablehlo.node import Body, Node
from egshape.frontends.stablehlo.parse import BYTECODE
from egshape.frontends.stablehlo.single import single
from egshape.ir.graph import Location
from egshape.ir.types import is_narrow

_NAMED = re.compile(r"[ \t]*%([A-Za-z_]\w*)(?::(\d{1,3}))?[ \t]*=[ \t]*(?=[\"\w])", re.MULTILINE | re.ASCII)
_KEEP_TEXT = {"stablehlo.composite": "composite_attributes"}
"""Ops whose attributes mean something to others only, and where they stand: the text is kept."""

_MODELS = ("stablehlo.", "chlo.")
_RETURN = "stablehlo.return"


@dataclass(frozen=True, slots=True)
class Function:
    """A function, with the attributes of its arguments and results and their texts."""

    name: str
    body: Body
    arg_attributes: tuple[Mapping[str, Any], ...]
    arg_texts: tuple[str, ...]
    result_texts: tuple[str, ...]
    result_attributes: tuple[Mapping[str, Any], ...]
    location: Location


class Module:
    """The functions of an MLIR module, read when they are first asked for."""

    def __init__(
        self, hlo: SimpleNamespace, module: Any, name: str, known: Callable[[Any], bool], source: str | bytes = b""
    ) -> None:
        """``known``: whether an op is read by its parts."""
        self.source = name
        self._written = written_names(source)
        self.reader = Reader(hlo, name)
        self._hlo = hlo
        self._known = known
        self.attributes = {key: module.operation.attributes[key] for key in module.operation.attributes}
        self.name = str(self.attributes["sym_name"].value) if "sym_name" in self.attributes else ""
        self._ids: dict[Any, int] = {}
        self._found: dict[str, Any] = {}
        self.meshes: dict[str, Any] = {}
        """Of devices, which shardings name."""
        self._read: dict[str, Function] = {}
        self._public: list[str] = []
        outline(hlo, module)
        self._list(module)

    def _list(self, module: Any) -> None:
        for view in module.body.operations:
            op = view.operation
            if op.name == "sdy.mesh":
                self.meshes[op.attributes["sym_name"].value] = op
                continue
            if op.name == "shape.function_library":
                continue  # says of ops of other dialects what shapes they give: ours are known
            if op.name != "func.func":
                raise Unsupported(
                    f"an op {op.name} outside of a function",
                    where=self._place(self.reader.location(op.location)),
                    hint="a module holds functions (func.func) and meshes (sdy.mesh) only",
                )
            name = op.attributes["sym_name"].value
            self._found[name] = op
            held = op.attributes
            if "sym_visibility" not in held or held["sym_visibility"].value == "public":
                self._public.append(name)

    def _place(self, location: Location) -> str:
        return str(location) or self.source

    def entry(self) -> Function:
        """``main``, else the only public function. Raises ParseError if there is none."""
        if "main" in self._found:
            return self.function("main")
        if len(self._public) == 1:
            return self.function(self._public[0])
        said = ", ".join(f"@{name}" for name in self._public[:5]) or "none"
        raise ParseError(
            f"has no function @main (public functions: {said})",
            where=self.source,
            hint="name the function to be read @main",
        )

    def others(self, entry: Function) -> list[str]:
        """The public functions but one that have a body."""
        return [name for name in self._public if name != entry.name and len(self._found[name].regions[0].blocks)]

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def function(self, name: str) -> Function:
        """A function by name. Raises KeyError if there is none, ParseError if it has no body."""
        known = self._read.get(name)
        if known is None:
            known = self._read[name] = self._function(name, self._found[name])
        return known

    def is_read(self, value: int) -> bool:
        """Whether an op, or what ends a block, of the functions that were read so far reads a value."""
        bodies = [each.body for each in self._read.values()]
        for body in bodies:
            if value in body.results:
                return True
            for node in body.nodes:
                if value in node.operands or value in node.captured:
                    return True
                bodies += node.regions
        return False

    def shared(self, entry: str) -> frozenset[str]:
        """The functions of some length that stand in several calls, of those that a function needs."""

        def callees(name: str) -> Iterator[str]:
            calls = (node for node in nodes_of(self.function(name).body) if node.name == "func.call")
            return (node.attributes["callee"] for node in calls if node.attributes["callee"] in self)

        often = called_often(entry, callees)
        return frozenset(name for name in often if sum(1 for _ in nodes_of(self.function(name).body)) >= LEAST_SHARED)

    def _function(self, name: str, op: Any) -> Function:
        location = self.reader.location(op.location)
        if not op.regions or not len(op.regions[0].blocks):
            raise ParseError(
                f"function @{name} has no body",
                where=self._place(location),
                hint="give a module that holds every function that it calls",
            )
        body = self._body(op.regions[0], f"function @{name}", location)
        given = op.attributes.get("arg_attrs", ())
        stated = op.attributes.get("res_attrs", ())
        attributes = tuple(self.reader.attribute(each) for each in given) or tuple({} for _ in body.args)
        return Function(
            name,
            body,
            attributes,
            tuple(str(each) for each in given) or ("{}",) * len(body.args),
            tuple(str(each) for each in stated) or ("{}",) * len(body.results),
            tuple(self.reader.attribute(each) for each in stated),
            location,
        )

    def _body(self, region: Any, what: str, location: Location) -> Body:
        blocks = list(region.blocks)
        if len(blocks) > 1:
            return self._blocks(blocks, what)
        args, ops = self._args(blocks[0]), [view.operation for view in blocks[0].operations]
        if not ops:
            return args
        return replace(args, nodes=self._nodes(ops[:-1]), results=self._operands(ops[-1]))

    def _args(self, block: Any) -> Body:
        """A block with its arguments only."""
        args = list(block.arguments)
        return Body(
            tuple(self._define(arg) for arg in args),
            tuple(self.reader.type(arg.type) for arg in args),
            tuple(self.reader.location(arg.location) for arg in args),
            (),
            (),
        )

    def _nodes(self, ops: Sequence[Any]) -> tuple[Node, ...]:
        return tuple([self._node(op) for op in ops if not self._is_part(op)])

    def _operands(self, op: Any) -> tuple[int, ...]:
        return tuple([self._ids[value] for value in op.operands])

    def _blocks(self, blocks: Sequence[Any], what: str) -> Body:
        """Blocks that branch to each other, structured; only those that are reached. Raises Unsupported
        where they have no such form."""
        order = _in_order(blocks[0])
        args = [self._args(block) for block in order]
        pieces: list[Piece] = []
        types: tuple[TensorInfo, ...] = ()
        for block, held in zip(order, args, strict=True):
            *ops, last = [view.operation for view in block.operations]
            body = replace(held, nodes=self._nodes(ops))
            pieces.append(Piece(body, self._jump(last, order, what), self.reader.location(last.location)))
            if last.name == "func.return":
                types = tuple(self.reader.type(value.type) for value in last.operands)
        return structured(pieces, types, lambda: self._define(object()))

    def _jump(self, last: Any, order: Sequence[Any], what: str) -> Jump:
        """Where a block goes on."""
        operands, to = self._operands(last), tuple(order.index(block) for block in last.successors)
        if last.name == "func.return":
            return Jump((EXIT,), (operands,))
        if last.name == BIND:
            return Jump(to, (operands,))
        if last.name == "cf.cond_br":
            _, first, _ = self.reader.attributes(last)["operandSegmentSizes"]
            return Jump(to, (operands[1 : 1 + first], operands[1 + first :]), operands[0])
        raise Unsupported(
            f"{what} has a block that ends with {last.name}",
            where=self._place(self.reader.location(last.location)),
            hint="use stablehlo.while, if and case",
        )

    def _define(self, value: Any) -> int:
        key = len(self._ids)
        self._ids[value] = key
        return key

    def _node(self, op: Any) -> Node:
        reader = self.reader
        name = op.name
        location = reader.location(op.location)
        operands = self._operands(op)
        if not self._known(op) or self._is_foreign(op) or is_outlined(op, self._found):
            return self._carried(op, location, self._results(op))
        attributes = reader.attributes(op)
        if name in _KEEP_TEXT:
            attributes["texts"] = reader.texts(op, _KEEP_TEXT[name])
        regions = tuple(self._body(region, name, location) for region in op.regions)
        types = tuple([reader.type(value.type) for value in op.results])
        results = self._results(op)
        return Node(
            name,
            operands,
            results,
            types,
            attributes,
            regions,
            location,
            instead=partial(self._carried, op, location, results) if self._is_narrow(op) else None,
            names=self._written.get((location.line, location.column), ()) if location.file == self.source else (),
        )

    def _is_part(self, op: Any) -> bool:
        """Whether an op takes out what a tuple was made of: no op, its result is the part."""
        maker: Any = op.operands[0].owner if op.name == "stablehlo.get_tuple_element" else None
        if getattr(maker, "name", "") != "stablehlo.tuple":  # the maker of an argument is its block
            return False
        self._ids[op.results[0]] = self._ids[maker.operands[op.attributes["index"].value]]
        return True

    def _results(self, op: Any) -> tuple[int, ...]:
        return tuple([self._define(value) for value in op.results])

    def _types(self, op: Any) -> Iterator[TensorInfo]:
        """Of operands and results."""
        return (self.reader.type(value.type) for values in (op.operands, op.results) for value in values)

    def _is_foreign(self, op: Any) -> bool:
        """Whether an op has a value that is no tensor of ours (a token), which only those hold that are carried."""
        return op.name.startswith(_MODELS) and op.name != _RETURN and any(not info.dtype for info in self._types(op))

    def _is_narrow(self, op: Any) -> bool:
        return op.name.startswith(_MODELS) and op.name != _RETURN and any(is_narrow(i.dtype) for i in self._types(op))

    def _carried(self, op: Any, location: Location, results: tuple[int, ...]) -> Node:
        """An op that is not read by its parts."""
        text, outer = single(self._hlo, op, {**self._found, **self.meshes})
        operands, captured = (tuple([self._ids[value] for value in values]) for values in (op.operands, outer))
        types = tuple([self.reader.type(value.type) for value in op.results])
        attributes = self.reader.attributes(op)
        return Node(op.name, operands, results, types, attributes, (), location, text, captured)


def nodes_of(body: Body) -> Iterator[Node]:
    """The ops of a body and of the regions inside."""
    for node in body.nodes:
        yield node
        for region in node.regions:
            yield from nodes_of(region)


def _in_order(first: Any) -> list[Any]:
    """The blocks that are reached, each behind those that every way to it passes."""
    found, seen = [], [first]
    pending = [(first, iter(_next(first)))]
    while pending:
        block, ahead = pending[-1]
        each = next((each for each in ahead if each not in seen), None)
        if each is None:
            found.append(block)
            pending.pop()
        else:
            seen.append(each)
            pending.append((each, iter(_next(each))))
    return found[::-1]


def _next(block: Any) -> list[Any]:
    return list(list(block.operations)[-1].operation.successors)


def written_names(source: str | bytes) -> dict[tuple[int, int], tuple[str, ...]]:
    """What a text calls the results of its ops where these are words, by the line and column of the op: MLIR forgets
    it. Bytecode has no names."""
    if not isinstance(source, str):
        source = "" if BYTECODE in source else source.decode("utf-8", "replace")
    found = {}
    for number, line in enumerate(source.split("\n"), 1) if _NAMED.search(source) else ():
        match = _NAMED.match(line)
        if match:
            count = int(match[2] or 1)
            found[number, match.end() + 1] = (match[1], *(f"{match[1]}_{k}" for k in range(1, count)))
    return found
