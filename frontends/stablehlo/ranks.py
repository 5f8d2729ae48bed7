"""Ranks of unranked tensors (``tensor<*xf32>``) in the text of a module, which StableHLO's verifier rejects: each is
inferred from the other values of its op, of calls and of regions, and written with as many unknown sizes.

What is read of a text is only what ranks need (``text.py``). Every op gives linear equations over ranks, and these are
solved one unknown at a time. A value whose rank nothing tells is written as a vector with the encoding ``UNRANKED``,
which the reader takes for what it is: ops by elements, calls and custom calls accept it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from egshape.frontends.ranks import Equation, Widest, is_of, pairs, same, solve, sums
from egshape.frontends.stablehlo.text import Name, Statement, Typed, statements
from egshape.ops import REGISTRY

UNRANKED = '"unranked"'
"""The encoding of what stands for an unranked tensor."""

STAR = "tensor<*x"
_RANKED = re.compile(r"tensor<((?:(?:\d+|\?)x)*)[^*]")
_LIST = r"\s*=\s*(?:(?:dense|array)<(?:i64)?:?\s*)?(?:\[\s*)?([-\d\s,]*)"
_STANDS = re.compile(rf"tensor<\?x((?:[^<>,]|<[^<>]*>)*), {UNRANKED}>")
_FUNCTION = re.compile(r"@([\w.$]+)")
_PLACE = re.compile(r'\s*(?:\{(?:[^{}"]|"(?:[^"\\]|\\.)*")*\}\s*)?loc\("((?:[^"\\]|\\.)*)"')
"""The name in the location of an argument, behind its type and attributes."""


@dataclass(frozen=True)
class Ranked:
    """The text with the ranks that were found, and the values of which none was. ``called``: what the graph calls
    values; ``told``: the ranks that were said, and are taken, by these names."""

    text: str
    left: tuple[Name, ...]
    called: Mapping[Name, str]
    told: Mapping[str, int]


def ranked(text: str, said: Mapping[str, int] | None = None) -> Ranked:
    """Give unranked values of a module the rank that their uses tell, or else that is ``said`` of them, by the names
    that the graph has for them."""
    ops = statements(text)
    for op in ops:
        _bind(op)
    functions = {found[1]: op for op in ops if op.name == "func.func" and (found := _FUNCTION.search(op.own))}
    equations = [each for op in ops for each in _equations(op, functions)]
    ranks = {
        value: rank for op in ops for type in op.types for value in type.values if (rank := _rank(type)) is not None
    }
    solve(equations, ranks)
    called = _called(text, ops, functions)
    told = {value: said[name] for value, name in called.items() if said and name in said and value not in ranks}
    ranks.update(told)
    solve(equations, ranks)
    types = sorted((type for op in ops for type in op.types), key=lambda type: type.at)
    new, left = _written(text, types, ranks)
    return Ranked(new, left, called, {called[value]: rank for value, rank in told.items()})


def _called(text: str, ops: Sequence[Statement], functions: Mapping[str, Statement]) -> dict[Name, str]:
    """What the graph calls the arguments and the values of the function that is the program: an argument by its
    location, else by its place; another value by its name, if that is no number and nothing else's."""
    main = functions.get("main") or next((op for op in functions.values() if "private" not in op.own), None)
    if main is None:
        return {}
    ends = {value: type.at + len(type.text) for type in main.types for value in type.values}
    places = [_PLACE.match(text, ends[value]) if value in ends else None for value in main.args]
    out = {
        value: place[1] if place else f"arg{index}"
        for index, (value, place) in enumerate(zip(main.args, places, strict=True))
    }
    after = min((op.at for op in functions.values() if op.at > main.at), default=len(text))
    inside = [value for op in ops if main.at < op.at < after for value in (*op.results, *op.args)]
    times = Counter(value.text for value in (*main.args, *inside))
    return out | {value: value.text for value in inside if times[value.text] == 1 and not value.text[1:].isdigit()}


def unranked(text: str) -> str:
    """A text with what stands for unranked tensors as these."""
    return _STANDS.sub(r"tensor<*x\1>", text)


def _written(text: str, types: Sequence[Typed], ranks: Mapping[Name, int]) -> tuple[str, tuple[Name, ...]]:
    parts, done, left = [], 0, dict[Name, None]()
    for type in types:
        if not type.text.startswith(STAR):
            continue
        known = next((ranks[value] for value in type.values if value in ranks), None)
        element = type.text[len(STAR) : -1]
        new = f"tensor<?x{element}, {UNRANKED}>" if known is None else f"tensor<{'?x' * known}{element}>"
        if known is None:
            left |= dict.fromkeys(type.values)
        parts += [text[done : type.at], new]
        done = type.at + len(type.text)
    return "".join([*parts, text[done:]]), tuple(value for value in left if value.text.startswith("%"))


def _rank(type: Typed) -> int | None:
    found = _RANKED.match(type.text)
    return found[1].count("x") if found else None


# -- what the forms of ops say ----------------------------------------------------------------------------


def _bind(op: Statement) -> None:
    """Say of the types of an op which values they are of."""
    found: list[tuple[Sequence[Typed], Sequence[Name | None]]]
    if op.name == "func.func":
        op.results += [Name(f"result {place}", op.at) for place in range(len(op.taken))]
        found = [(op.taken, op.results)]
    elif op.behind:
        found = [(op.given, op.operands), (op.taken, op.results)]
    elif op.name in _OF_FIRST:
        found = [(op.given, op.operands[:1])]
    elif op.name == "stablehlo.select" and len(op.given) == 2:
        kind, type = op.given
        found = [([kind, type, type, type], [*op.operands, *op.results])]
    elif len(op.given) == 1:
        every = [*op.operands, *op.results]
        found = [(op.given * len(every), every)]
    else:
        found = [(op.given, each) for each in (op.operands, op.results, op.args) if len(each) == len(op.given)]
    for types, named in found:
        for type, value in zip(types, named, strict=False):
            if value is not None:
                type.values.append(value)


_OF_FIRST = ("tensor.extract", "tensor.dim", "tensor.rank")
"""Ops with one type, which is that of their first operand."""


# -- what ops say ----------------------------------------------------------------------------------------


def _length(op: Statement, *keys: str) -> int | None:
    """How many numbers a list among the attributes has."""
    found = next((found for key in keys if (found := re.search(rf"\b{key}{_LIST}", op.own))), None)
    return None if found is None else len(found[1].replace(",", " ").split())


def _extent(type: Typed) -> int | None:
    """The size of a vector."""
    found = re.match(r"tensor<(\d+)x[a-z]\w*>\Z", type.text)
    return int(found[1]) if found else None


def _equations(op: Statement, functions: Mapping[str, Statement]) -> Iterator[Equation]:
    for type in op.types:
        yield from same(*type.values)
    if op.name == "func.func" or op.name in ("stablehlo.if", "stablehlo.case"):
        for end in op.returned:
            yield from pairs(op.results, end.operands)
        for decides in op.operands[:1]:
            yield from is_of(decides, 0)
    elif op.name in ("func.call", "call") and (found := _FUNCTION.search(op.own)) and found[1] in functions:
        callee = functions[found[1]]
        yield from (*pairs(callee.args, op.operands), *pairs(callee.results, op.results))
    elif op.name == "stablehlo.while":
        count = len(op.results)
        for end in op.returned[:1]:
            yield from is_of(end.operands[0], 0)
        for end in op.returned[1:]:
            yield from pairs(op.results, end.operands)
        for values in (op.args[:count], op.args[count:]):
            yield from pairs(values, op.operands)
        yield from pairs(op.results, op.operands)
    elif op.name in _BY_ELEMENTS:
        yield from same(*op.operands, *op.results)
    elif op.name in _RULES and op.operands and op.results:
        yield from _RULES[op.name](op)
    elif op.name.startswith("chlo.broadcast_") and None not in op.operands and op.results:
        yield Widest(op.results[0], tuple(each for each in op.operands if each is not None))


_BY_ELEMENTS = frozenset(
    f"{dialect}.{name}"
    for dialect in ("stablehlo", "chlo")
    for name, decl in REGISTRY.by_frontend(dialect).items()
    if decl.family in ("unary", "binary")
) | {"stablehlo.compare", "stablehlo.convert", "stablehlo.bitcast_convert", "stablehlo.reverse", "tensor.cast"}

Rule = Callable[[Statement], Iterable[Equation]]


def _alike(*places: int) -> Rule:
    """Operands that have the rank of the result."""
    return lambda op: same(*(op.operands[place] for place in places if place < len(op.operands)), op.results[0])


def _listed(*keys: str) -> Rule:
    """The first operand, and the result, have as many axes as a list has numbers."""

    def rule(op: Statement) -> Iterator[Equation]:
        yield from same(op.operands[0], op.results[0])
        yield from is_of(op.results[0], _length(op, *keys))

    return rule


def _shaped(place: int) -> Rule:
    """The result has the sizes that an operand gives."""

    def rule(op: Statement) -> Iterator[Equation]:
        if len(op.given) > place:
            yield from is_of(op.results[0], _extent(op.given[place]))
        if "broadcast" in op.name:
            yield from is_of(op.operands[0], _length(op, "dims", "broadcast_dimensions"))

    return rule


def _slice(op: Statement) -> Iterator[Equation]:
    yield from same(op.operands[0], op.results[0])
    pretty = re.search(r"\[([^\]]*:[^\]]*)\]", op.own)
    yield from is_of(op.results[0], pretty[1].count(",") + 1 if pretty else _length(op, "start_indices"))


def _dynamic_slice(op: Statement) -> Iterator[Equation]:
    yield from same(op.operands[0], op.results[0])
    yield from is_of(op.results[0], len(op.operands) - 1)


def _dynamic_update(op: Statement) -> Iterator[Equation]:
    yield from same(*op.operands[:2], op.results[0])
    yield from is_of(op.results[0], len(op.operands) - 2)


def _fewer(op: Statement) -> Iterator[Equation]:
    """Each result has fewer axes than its operand."""
    gone = _length(op, "dimensions")
    for value, result in zip(op.operands, op.results, strict=False):
        yield from () if gone is None else sums(gone, (1, value), (-1, result))


def _dot_general(op: Statement) -> Iterator[Equation]:
    batch = _length(op, "batching_dims", "lhs_batching_dimensions") or 0
    contracted = _length(op, "contracting_dims", "lhs_contracting_dimensions") or 0
    x, y = op.operands
    yield from sums(batch + 2 * contracted, (1, x), (1, y), (-1, op.results[0]))


def _shape_of(op: Statement) -> Iterator[Equation]:
    for type in op.taken:
        yield from is_of(op.operands[0], _extent(type))


_RULES: Mapping[str, Rule] = {
    **{
        f"stablehlo.{name}": rule
        for name, rule in {
            "broadcast_in_dim": lambda op: is_of(op.operands[0], _length(op, "dims", "broadcast_dimensions")),
            "cholesky": _alike(0),
            "clamp": _alike(1),
            "concatenate": lambda op: same(*op.operands, op.results[0]),
            "dot_general": _dot_general,
            "dynamic_broadcast_in_dim": _shaped(1),
            "dynamic_iota": _shaped(0),
            "dynamic_pad": _alike(0),
            "dynamic_reshape": _shaped(1),
            "dynamic_slice": _dynamic_slice,
            "dynamic_update_slice": _dynamic_update,
            "fft": _alike(0),
            "optimization_barrier": lambda op: pairs(op.operands, op.results),
            "pad": _listed("low", "edge_padding_low"),
            "real_dynamic_slice": _alike(0),
            "reduce": _fewer,
            "reduce_precision": _alike(0),
            "scatter": lambda op: pairs(op.operands, op.results),
            "select": _alike(1, 2),
            "select_and_scatter": _alike(0),
            "slice": _slice,
            "sort": lambda op: pairs(op.operands, op.results),
            "transpose": _listed("dims", "permutation"),
        }.items()
    },
    "shape.shape_of": _shape_of,
    "tensor.extract": lambda op: is_of(op.operands[0], len(op.operands) - 1),
}
