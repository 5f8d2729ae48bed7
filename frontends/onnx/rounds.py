"""Which of ONNX's loops a ``while`` is: a Loop counts its rounds and joins the rows that they give, a Scan reads one
place of a tensor each round too. ``with_loops`` puts ops of these names, known to the writer only, in place of each
``while`` that has their form, so that no node counts, compares, reads or joins; any other one stays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from egshape.dims import Dim, const
from egshape.facts import Relation
from egshape.ir.graph import Attr, Block, Graph, Op, SymbolDef, Value, dims_of
from egshape.ir.types import TensorType

LOOP = "onnx.Loop"
"""Operands: most rounds, whether to begin, the states; the first two as ``given`` says, a truth for each. Its region
takes the number of the round, whether the loop goes on, and the states; it gives whether the loop goes on, the states,
and rows."""

SCAN = "onnx.Scan"
"""Operands: the states, and tensors of which each round reads one place along ``axes``, from the end where
``backwards``. Its region takes the states and what is read there; it gives the states and rows, which stand from the
end where ``rows_backwards``."""

_ZERO = const(0)
_ONE = const(1)

Makers = Mapping[Value, Op]


def with_loops(graph: Graph, scans: bool) -> Graph:
    """The graph for a writer: each ``while`` that is a Loop, or a Scan if there may be some, as one."""
    return replace(graph, body=_block(graph.body, {}, scans))


def _block(block: Block, outer: Makers, scans: bool) -> Block:
    if not any(op.name == "while" for op in block.walk()):
        return block
    makers = {**outer, **{value: op for op in block.ops for value in op.results}}
    read, ops = block.readers(), list[Op]()
    for each in block.ops:
        regions = () if each.attrs.get("whole") else each.regions
        inner = tuple(_block(region, makers, scans) for region in regions)
        op = replace(each, regions=inner) if inner else each
        unread = frozenset(value for value in op.results if not read[value])
        ops += _While(op, makers, unread, scans).written() if op.name == "while" else [op]
    return replace(block, ops=tuple(ops))


@dataclass(frozen=True)
class _Row:
    """What a round adds to what it carries: a value that holds the elements of the row, its shape, and the ops that add
    it; backwards says that the rows stand from the end."""

    source: Value
    shape: tuple[Dim, ...]
    spent: frozenset[Op]
    backwards: bool = False


@dataclass(frozen=True)
class _Read:
    """An op that reads the place of its round of a tensor, along an axis."""

    op: Op
    axis: int
    backwards: bool


class _While:
    """A ``while``. ``outer``: what made the values around it; ``unread``: its results that nothing reads;
    ``scans``: whether it may become a Scan."""

    def __init__(self, op: Op, outer: Makers, unread: frozenset[Value], scans: bool) -> None:
        self.op, self.unread, self.scans = op, unread, scans
        self.test, self.body = op.regions
        self.makers = {**outer, **{value: each for each in self.body.ops for value in each.results}}
        self.tested = {value: each for each in self.test.ops for value in each.results}
        self.read = self.body.readers()
        self.inside = {*self.body.args, *(value for each in self.body.ops for value in each.results)}

    def written(self) -> list[Op]:
        """The ops that stand for it."""
        if not all(each.results for each in self.test.ops):
            return [self.op]
        parts = list(self._conjuncts(self.test.results[0]))
        flags = [self.test.args.index(part) for part in parts if part in self.test.args]
        bounds = [self.tested[part] for part in parts if part not in self.test.args]
        if len(flags) > 1 or len(bounds) > 1 or not all(self._hidden(place) for place in flags):
            return [self.op]
        flag = flags[0] if flags else None
        if not bounds:
            return [self._loop(next(filter(self._counts, self._others(flag)), None), flag, None)]
        counter = self._counter(bounds[0])
        if counter is None:
            return [self.op]
        limit = bounds[0].operands[1]
        maker = self.tested.get(limit)
        steps = self._size(limit, {**self.makers, **self.tested})
        moved = () if maker is None else (maker,)
        if maker is not None and (maker.operands or not self._known(maker.attrs, self.test.symbols)):
            return [self.op]
        # A Loop that was read has a flag: it stays one, since ONNX Runtime's Scan of no places ends the process.
        scan = None if flag is not None or steps is None or not self.scans else self._scan(counter, steps)
        return [*moved, scan or self._loop(counter, flag, limit)]

    # -- the test ------------------------------------------------------------------------------------------------

    def _conjuncts(self, value: Value) -> Iterator[Value]:
        maker = self.tested.get(value)
        if maker is not None and maker.name == "and":
            for operand in maker.operands:
                yield from self._conjuncts(operand)
        else:
            yield value

    def _counter(self, bound: Op) -> int | None:
        """The carried value that counts the rounds, which a comparison bounds."""
        args = self.test.args
        if bound.name != "compare" or bound.attrs["direction"] != "LT" or bound.operands[1] in args:
            return None
        return next((place for place, arg in enumerate(args) if arg is bound.operands[0] and self._counts(place)), None)

    def _counts(self, place: int) -> bool:
        """Whether a carried value is the number of the round, and no result."""
        arg, step = self.body.args[place], self.makers.get(self.body.results[place])
        return (
            arg.type == TensorType("i64", ())
            and self._hidden(place)
            and self._size(self.op.operands[place]) is _ZERO
            and step is not None
            and step.name == "add"
            and arg in step.operands
            and any(self._size(each) is _ONE for each in step.operands)
        )

    def _hidden(self, place: int) -> bool:
        return self.op.results[place] in self.unread

    def _size(self, value: Value, makers: Makers | None = None) -> Dim | None:
        """A scalar as a size, where it is a constant or computed of sizes alone."""
        maker = (self.makers if makers is None else makers).get(value)
        if maker is None or value.type.shape is None or any(size.const != 1 for size in value.type.shape):
            return None
        if maker.name == "constant" and maker.attrs["value"].dtype == np.int64:
            return const(int(maker.attrs["value"].reshape(())))
        if maker.name == "dims":
            return maker.attrs["elements"][0] if isinstance(maker.attrs["elements"][0], Dim) else None
        if maker.name == "subtract":
            one, two = (self._size(each, makers) for each in maker.operands)
            return None if one is None or two is None else one - two
        return None

    # -- the rounds ----------------------------------------------------------------------------------------------

    def _loop(self, counter: int | None, flag: int | None, limit: Value | None) -> Op:
        rows = {place: row for place in self._others(counter, flag) if (row := self._appended(place)) is not None}
        states = [place for place in self._others(counter, flag) if place not in rows]
        step = Value("round", TensorType("i64", ())) if counter is None else self.body.args[counter]
        going = Value("going", TensorType("i1", ())) if flag is None else self.body.args[flag]
        on = going if flag is None else self.body.results[flag]
        begin = None if flag is None else self.op.operands[flag]
        given = [each for each in (limit, begin) if each is not None]
        return self._remade(
            LOOP,
            given,
            (step, going),
            (on,),
            states,
            rows,
            {"given": (limit is not None, begin is not None)},
            frozenset[Op](),
        )

    def _scan(self, counter: int, steps: Dim) -> Op | None:
        arg, others = self.body.args[counter], self._others(counter, None)
        rows = {place: row for place in others if (row := self._put(place, arg, steps)) is not None}
        reads = [each for op in self.body.ops if (each := self._reads(op, arg, steps)) is not None]
        step = self.makers[self.body.results[counter]]
        spent = frozenset((step, *(each.op for each in reads)))
        used = spent.union(*(row.spent for row in rows.values()))
        turned = {op for op in self.body.ops if op.results and self._turned(op.results[0], arg, steps)}
        if not reads or any(arg in op.operands for op in self.body.ops if op not in used | turned):
            return None
        if any(self._turned_elsewhere(op, used) for op in turned) or self._escapes(arg):
            return None
        own = Relation("<=", _ONE, steps)
        spent |= turned | {op for op in self.body.ops if op.name == "check" and _says(op, own)}
        states = [place for place in others if place not in rows]
        if any(map(self._grows, states)):
            return None
        attrs = {
            "axes": tuple(each.axis for each in reads),
            "backwards": tuple(each.backwards for each in reads),
            "rows_backwards": tuple(row.backwards for row in rows.values()),
        }
        made = self._remade(SCAN, (), (), (), states, rows, attrs, spent)
        (body,) = made.regions
        body = replace(body, args=(*body.args, *(each.op.result for each in reads)))
        return replace(made, operands=(*made.operands, *(each.op.operands[0] for each in reads)), regions=(body,))

    def _remade(
        self,
        name: str,
        given: Sequence[Value],
        args: Sequence[Value],
        results: Sequence[Value],
        states: Sequence[int],
        rows: Mapping[int, _Row],
        attrs: Mapping[str, Attr],
        spent: frozenset[Op],
    ) -> Op:
        """The op of a name: what it takes and gives beside states and rows comes first."""
        ops = [op for op in self.body.ops if op not in spent.union(*(row.spent for row in rows.values()))]
        found = []
        for row in rows.values():
            value = row.source
            if value.type.shape != row.shape:
                value = Value(f"{value.name}_row", TensorType(value.type.dtype, row.shape))
                ops.append(Op("reshape", (row.source,), {"shape": row.shape}, (value,), location=self.op.location))
            found.append(value)
        gone = {self.body.args[place] for place in rows}
        body = Block(
            (*args, *(self.body.args[place] for place in states)),
            tuple(ops),
            (*results, *(self.body.results[place] for place in states), *found),
            tuple(each for each in self.body.symbols if each.value not in gone),
        )
        return replace(
            self.op,
            name=name,
            operands=(*given, *(self.op.operands[place] for place in states)),
            attrs=attrs,
            results=tuple(self.op.results[place] for place in (*states, *rows)),
            regions=(body,),
        )

    def _others(self, *but: int | None) -> list[int]:
        return [place for place in range(len(self.body.args)) if place not in but]

    # -- rows and reads ------------------------------------------------------------------------------------------

    def _appended(self, place: int) -> _Row | None:
        """The row that a round appends to a carried value that begins empty."""
        join = self._only_reader(place, "concatenate")
        if join is None or join.attrs["dim"] != 0 or len(join.operands) != 2:
            return None
        arg, part = join.operands
        begins = self.op.operands[place].type.shape
        if arg is not self.body.args[place] or not begins or begins[0].const != 0 or part.type.dims[0].const != 1:
            return None
        return self._row(part, join)

    def _put(self, place: int, counter: Value, steps: Dim) -> _Row | None:
        """The row that a round puts at its place of a carried value of so many places: whatever stood there goes."""
        put = self._only_reader(place, "dynamic_update_slice")
        arg = self.body.args[place]
        if put is None or put.operands[0] is not arg or arg.type.dims[0] is not steps:
            return None
        _, part, at, *rest = put.operands
        backwards = self._turned(at, counter, steps)
        if not (at is counter or backwards) or any(self._size(each) is not _ZERO for each in rest):
            return None
        if part.type.dims != (_ONE, *arg.type.dims[1:]):
            return None
        return self._row(part, put, backwards)

    def _row(self, part: Value, last: Op, backwards: bool = False) -> _Row:
        maker, shape = self.makers.get(part), part.type.dims[1:]
        if maker is not None and maker.name == "reshape" and part in self.inside and self.read[part] == 1:
            return _Row(maker.operands[0], shape, frozenset((maker, last)), backwards)
        return _Row(part, shape, frozenset((last,)), backwards)

    def _only_reader(self, place: int, name: str) -> Op | None:
        """The op of a name that makes the next of a carried value, and alone reads it; no size inside is its own."""
        arg, result = self.body.args[place], self.body.results[place]
        maker = self.makers.get(result)
        own = frozenset(each.name for each in self.body.symbols if each.value is arg)
        if maker is None or result not in self.inside or maker.name != name:
            return None
        if self.read[arg] != 1 + len(own) or self.read[result] != 1 or self._tests(place):
            return None
        return None if any(_sizes(op) & own for op in self.body.walk() if op is not maker) else maker

    def _tests(self, place: int) -> bool:
        """Whether the test reads a carried value."""
        arg = self.test.args[place]
        return arg in {value for op in self.test.ops for value in op.operands}

    def _reads(self, op: Op, counter: Value, steps: Dim) -> _Read | None:
        if op.name != "gather" or op.operands[0] in self.inside:
            return None
        (x, at), a = op.operands, op.attrs
        backwards = self._turned(at, counter, steps)
        if not (at is counter or backwards) or len(a["collapsed"]) != 1 or a["start_index_map"] != a["collapsed"]:
            return None
        (axis,) = a["collapsed"]
        rest = (*x.type.dims[:axis], *x.type.dims[axis + 1 :])
        whole = x.type.dims[axis] is steps and not a["operand_batch"] and op.result.type.dims == rest
        return _Read(op, axis, backwards) if whole else None

    def _turned(self, value: Value, counter: Value, steps: Dim) -> bool:
        """Whether a value is the place of a round from the end."""
        maker = self.makers.get(value)
        if maker is None or value not in self.inside or maker.name != "subtract" or maker.operands[1] is not counter:
            return False
        return self._size(maker.operands[0]) is steps - 1

    def _turned_elsewhere(self, op: Op, used: frozenset[Op]) -> bool:
        return sum(op.result in each.operands for each in used) != self.read[op.result]

    def _escapes(self, value: Value) -> bool:
        """Whether a value is a result of a round, defines a size, or is read by a region inside."""
        read = {value for op in self.body.ops for region in op.regions for value in region.captures()}
        return value in {*read, *self.body.results, *(each.value for each in self.body.symbols)}

    def _grows(self, place: int) -> bool:
        """Whether a carried value may change its shape, or has an unknown rank."""
        start, arg, result = self.op.operands[place], self.body.args[place], self.body.results[place]
        return start.type.shape is None or not start.type.shape == arg.type.shape == result.type.shape

    @staticmethod
    def _known(attrs: Mapping[str, Attr], own: Sequence[SymbolDef]) -> bool:
        """Whether attributes hold no size of the block that defines these symbols."""
        names = {each.name for each in own}
        return not any(size.symbols() & names for attr in attrs.values() for size in dims_of(attr))


def _says(op: Op, relation: Relation) -> bool:
    return op.attrs["relation"] != "value" and Relation(op.attrs["relation"], *op.attrs["sides"]) == relation


def _sizes(op: Op) -> frozenset[str]:
    """The symbols in the sizes that an op holds or has as its results'."""
    held = [size for attr in op.attrs.values() for size in dims_of(attr)]
    held += [size for value in op.results for size in value.type.shape or ()]
    held += [size for each in op.requires for size in (each.lhs, each.rhs)]
    return frozenset().union(*(size.symbols() for size in held))
