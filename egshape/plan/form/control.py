"""Control flow as host steps: loops carry values in buffers, branches write their results to shared ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from egshape.dims import Dim, const, product, symbol
from egshape.facts import Relation
from egshape.ir.graph import Block, Op, Value
from egshape.plan.analysis.elements import place
from egshape.plan.form.steps import Steps
from egshape.plan.ir.loops import Buffer, Call, Const, Expr, Index
from egshape.plan.ir.program import Branch, CheckSizes, Copy, DefineSize, Repeat, Step, Swap


def captures(p: Steps, op: Op, apart: Collection[Value] = ()) -> None:
    """What regions read from outside lies in buffers before they run, but for ``apart``."""
    for region in op.regions:
        for value in region.captures():
            root = p.resolved(value)
            if (
                value not in apart
                and root not in p.places
                and p.producers[root].name not in ("constant", "iota", "dims")
            ):
                p.buffer(root)


def loop(p: Steps, op: Op) -> None:
    """while: carried values in buffers of their own; a round's results are copied there at its end. Sizes that change
    from round to round are symbols that each round defines anew."""
    captures(p, op)
    test, body = op.regions
    own = [
        (each.name, block.args.index(each.value), each.axis)
        for block in (test, body)
        for each in block.symbols
        if each.axis is not None and each.value in block.args
    ]
    names = {name for name, _, _ in own}
    growing = [any(size.symbols() & names for size in value.type.dims) for value in body.args]
    p.steps += [DefineSize(name, op.operands[k].type.dims[axis]) for name, k, axis in own]
    for block in (test, body):
        # Not by p.check, which would believe it of the sizes of later rounds too.
        p.steps += _fitting(op, op.operands, block, {})
    carried = []
    adding = [_appends(body, place) if grows and p.target.moves_memory else None for place, grows in enumerate(growing)]
    for value, init, inside, grows, last in zip(op.results, op.operands, body.args, growing, adding, strict=True):
        size = product(inside.type.dims)
        if last is not None:
            name = p.name("rows")
            p.steps.append(DefineSize(name, size))
            target = p.appended[last] = p.scratch(value.name, init.type.dtype, symbol(name))
        else:
            target = p.scratch(value.name, init.type.dtype, size) if grows else p.new_buffer(value)
        p.store(init, target)
        carried.append(target)
    with p.branch() as test_steps:
        p.places.update(zip(test.args, carried, strict=True))
        p.block(test)
        condition = p.buffer(test.results[0])
    with p.branch() as body_steps:
        p.places.update(zip(body.args, carried, strict=True))
        p.block(body)
        _carry(p, op, carried, growing, own)
    p.steps.append(Repeat(tuple(test_steps), condition, tuple(body_steps)))
    p.places.update(zip(op.results, carried, strict=True))


def _fitting(op: Op, values: Sequence[Value], block: Block, sizes: Mapping[str, Dim]) -> Iterator[CheckSizes]:
    """That values have the sizes of a block's arguments, in which symbols have the values ``sizes``."""
    for value, arg in zip(values, block.args, strict=True):
        for given, stated in zip(value.type.dims, arg.type.dims, strict=True):
            wanted = stated.substitute(sizes)
            if given is not wanted:
                yield CheckSizes(
                    "==", given, wanted, "a value of size {0} is taken as one of size {1}", (given, wanted), place(op)
                )


def _appends(body: Block, place: int) -> Op | None:
    """The concatenation by which a round adds to the end of an argument that nothing else reads."""
    arg, result = body.args[place], body.results[place]
    readers = [op for op in body.ops if arg in op.reads()]
    if len(readers) != 1 or arg in body.results or readers[0].name != "concatenate" or readers[0].result is not result:
        return None
    (op,) = readers
    one = all(size.const == 1 for size in arg.type.dims[: op.attrs["dim"]])
    return op if one and op.operands.index(arg) == 0 and op.operands.count(arg) == 1 else None


def _carry(p: Steps, op: Op, carried: list[Buffer], growing: list[bool], own: list[tuple[str, int, int]]) -> None:
    """Copy the round's results to the carried buffers, as if all at once; of one that the round made, and whose size is
    another each round, the memory is exchanged."""
    body = op.regions[1]
    following = {name: symbol(f"{name}.next") for name, _, _ in own}
    sources = [p.buffer(value) for value in body.results]
    p.steps += [DefineSize(f"{name}.next", body.results[k].type.dims[axis]) for name, k, axis in own]
    p.steps += _fitting(op, body.results, body, following)
    exchanged: list[Step] = []
    moves: list[Step] = [DefineSize(name, size) for name, size in following.items()]
    for value, inside, source, target, grows in zip(body.results, body.args, sources, carried, growing, strict=True):
        if source is target:
            continue
        size = product(inside.type.dims).substitute(following) if grows else source.size
        if grows and target in p.appended.values():
            (name,) = target.size.symbols()
            moves.append(DefineSize(name, size))
        made = source not in carried and not source.size.symbols().isdisjoint(following)
        if grows and made and sources.count(source) == 1 and p.target.moves_memory:
            exchanged.append(Swap(source, target))
        elif grows or source in carried:
            saved = p.scratch(f"{value.name}.saved", source.dtype, size)
            p.steps.append(Copy(source, saved))
            moves.append(Copy(saved, target))
        else:
            moves.append(Copy(source, target))
    p.steps += [*exchanged, *moves]


def branch(p: Steps, op: Op) -> None:
    """if and case: each branch writes its results to the op's buffers, and defines the sizes that only they tell. Sizes
    that are equal wherever a branch runs are one size there."""
    captures(p, op)
    p.start()
    test = p.read(op.operands[0], ()) if op.name == "if" else None
    index = p.buffer(op.operands[0])
    out = tuple(p.new_buffer(value) for value in op.results)
    arms = []
    for number, each in enumerate(op.regions):
        with p.branch() as steps:
            for sides in _equal(test, number == 0):
                # said once more in 64 bits: what is compared may have wrapped
                p.check(CheckSizes("==", *sides, "sizes {0} and {1} are equal in fewer bits only", sides, place(op)))
            region = p.settled(each)
            p.block(region)
            p.steps += [DefineSize(name, size) for name, size in _told(p, op, region)]
            for value, result, target in zip(region.results, op.results, out, strict=True):
                for one, two in zip(value.type.dims, result.type.dims, strict=True):
                    p.check(CheckSizes("==", one, two, "the branch gives a size {0}, not {1}", (one, two), place(op)))
                p.store(value, target)
        arms.append(tuple(steps))
    p.steps.append(Branch(index, tuple(arms)))
    p.places.update(zip(op.results, out, strict=True))


def _equal(test: Expr | None, holds: bool) -> Iterator[tuple[Dim, Dim]]:
    """Sizes that are equal wherever a condition holds, or wherever it does not."""
    if not isinstance(test, Call):
        return
    if test.op == "compare" and dict(test.attrs)["direction"] == ("EQ" if holds else "NE"):
        one, two = map(_size, test.args)
        if one is not None and two is not None:
            yield one, two
    elif test.op in ("and" if holds else "or", "not"):
        for each in test.args:
            yield from _equal(each, holds is (test.op != "not"))


def _size(expr: Expr) -> Dim | None:
    """What a number of the kinds that sizes have is as a size."""
    if isinstance(expr, Index) and expr.dtype in ("i32", "i64"):
        return expr.dim
    return const(expr.value) if isinstance(expr, Const) and isinstance(expr.value, int) else None


def _told(p: Steps, op: Op, region: Block) -> Iterator[tuple[str, Dim]]:
    """The sizes of an op's results that are symbols of their own, as a region of the op says them."""
    for inside, result in zip(region.results, op.results, strict=True):
        for each in p.definitions.get(result, ()):
            if each.axis is not None:
                yield each.name, inside.type.dims[each.axis]


def composite(p: Steps, op: Op) -> None:
    """composite, call: the region in place."""
    (region,) = op.regions
    p.same.update(zip(region.args, op.operands, strict=True))
    for each in region.symbols:
        if each.axis is not None and each.value in region.args:
            p.steps.append(DefineSize(each.name, p.resolved(each.value).type.dims[each.axis]))
    for condition in _fitting(op, op.operands, region, {}):
        p.check(condition)
    inner = Block(
        region.args,
        region.ops,
        region.results,
        tuple(each for each in region.symbols if each.axis is None or each.value not in region.args),
    )
    p.block(inner)
    for name, size in _told(p, op, region):
        p.steps.append(DefineSize(name, size))
        p.known.checked(Relation("==", symbol(name), size))
    for value, result in zip(region.results, op.results, strict=True):
        if result in p.outputs:
            p.store(value, p.outputs[result])
            p.places[result] = p.outputs[result]
        else:
            p.same[result] = value


CONTROL: dict[str, Callable[[Steps, Op], None]] = {
    "while": loop,
    "if": branch,
    "case": branch,
    "call": composite,
    "composite": composite,
}
"""How control flow is planned."""
