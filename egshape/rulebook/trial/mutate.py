"""Random programs that a rule may match: its own examples, changed in what an author may have overlooked.

Sizes become equal, 0, 1 or others; axis lists are shuffled; ranks, dtypes, functions, constants and givens change. What
the ops themselves refuse is dropped later, so that nothing here has to be careful."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from egshape.dims import Dim, const, product, symbol
from egshape.facts import Relation
from egshape.ir.types import TensorType, dtype_name, is_complex, is_float, numpy_dtype
from egshape.ops.base import Registry
from egshape.rulebook.trial.arrays import specials
from egshape.rulebook.trial.pull import DTYPES, NAMES, PUSHED, Dice, push
from egshape.rulelang.examples import Apply, Constant, Leaf, Line, Term
from egshape.rulelang.schema import ELEMENTWISE

_CHANGES = 3
_REPAIRS = 0.8
"""How often ops that no longer fit their operands get other attributes."""


def renamed(line: Line, suffix: str) -> Line:
    """The line with every symbol and leaf called something of its own."""
    names = {name: symbol(name + suffix) for name in _symbols(line)}
    return _with_sizes(_renamed_leaves(line, suffix), names)


def mutated(line: Line, rng: random.Random, registry: Registry) -> Line:
    """The left side of an example with a few random changes; nothing is stated of the result."""
    found = replace(line, right=None)
    for _ in range(rng.randint(1, _CHANGES)):
        found = rng.choice(_MUTATIONS)(found, rng, registry)
    return _repaired(found, rng, registry) if rng.random() < _REPAIRS else found


def _symbols(line: Line) -> list[str]:
    terms = [line.left, *([line.right] if isinstance(line.right, Leaf | Constant | Apply) else [])]
    found = {name for term in terms for dim in _sizes(term) for name in dim.symbols()}
    for relation in _relations(line):
        found |= relation.symbols()
    if isinstance(line.right, TensorType):
        found |= {name for dim in line.right.dims for name in dim.symbols()}
    return sorted(found)


def _relations(line: Line) -> tuple[Relation, ...]:
    right = line.right if isinstance(line.right, tuple) else ()
    return (*line.given, *right)


def _sizes(term: Term) -> list[Dim]:
    if isinstance(term, Leaf):
        return list(term.type.dims)
    if isinstance(term, Apply):
        own = [
            dim for value in term.attrs.values() if isinstance(value, tuple) for dim in value if isinstance(dim, Dim)
        ]
        return own + [dim for each in term.operands for dim in _sizes(each)]
    return []


def _walk(term: Term, change: Callable[[Term], Term]) -> Term:
    """A term with a function applied to every part, from the leaves up; a leaf that stands twice is changed once."""
    made: dict[int, Term] = {}

    def visit(each: Term) -> Term:
        if id(each) not in made:
            inner = replace(each, operands=tuple(map(visit, each.operands))) if isinstance(each, Apply) else each
            made[id(each)] = change(inner)
        return made[id(each)]

    return visit(term)


def _with_sizes(line: Line, sizes: Mapping[str, Dim]) -> Line:
    def size(dim: Dim) -> Dim:
        return dim.substitute(sizes)

    def change(term: Term) -> Term:
        if isinstance(term, Leaf):
            return Leaf(term.name, TensorType(term.type.dtype, tuple(map(size, term.type.dims))))
        if isinstance(term, Apply):
            attrs = {
                key: tuple(size(each) if isinstance(each, Dim) else each for each in value)
                if isinstance(value, tuple)
                else value
                for key, value in term.attrs.items()
            }
            return replace(term, attrs=attrs)
        return term

    def relation(each: Relation) -> Relation:
        return replace(each, lhs=size(each.lhs), rhs=size(each.rhs))

    right: Any = line.right
    if isinstance(right, Leaf | Constant | Apply):
        right = _walk(right, change)
    elif isinstance(right, TensorType):
        right = TensorType(right.dtype, tuple(map(size, right.dims)))
    elif isinstance(right, tuple):
        right = tuple(map(relation, right))
    return Line(_walk(line.left, change), tuple(map(relation, line.given)), right)


def _renamed_leaves(line: Line, suffix: str) -> Line:
    def change(term: Term) -> Term:
        return Leaf(term.name + suffix, term.type) if isinstance(term, Leaf) else term

    right = _walk(line.right, change) if isinstance(line.right, Leaf | Constant | Apply) else line.right
    return replace(line, left=_walk(line.left, change), right=right)


def parts(term: Term) -> list[Term]:
    """All parts of a term, each once."""
    out: dict[int, Term] = {}
    stack = [term]
    while stack:
        each = stack.pop()
        out[id(each)] = each
        if isinstance(each, Apply):
            stack += each.operands
    return list(out.values())


def _replaced(line: Line, old: Term, new: Term) -> Line:
    """The line with one part of the left side exchanged, wherever it stands."""
    made: dict[int, Term] = {}

    def visit(each: Term) -> Term:
        if each is old:
            return new
        if id(each) not in made:
            made[id(each)] = (
                replace(each, operands=tuple(map(visit, each.operands))) if isinstance(each, Apply) else each
            )
        return made[id(each)]

    return replace(line, left=visit(line.left))


def _choose(line: Line, rng: random.Random, kind: type[Any], wanted: Callable[[Any], bool] = lambda _: True) -> Any:
    found = [each for each in parts(line.left) if isinstance(each, kind) and wanted(each)]
    return rng.choice(found) if found else None


def _some_size(rng: random.Random, line: Line) -> Dim:
    names = _symbols(line) or list(NAMES)
    return rng.choice([const(0), const(1), const(1), const(2), const(3), *map(symbol, names)])


# -- the changes ----


def _merge_symbols(line: Line, rng: random.Random, registry: Registry) -> Line:
    """One symbol becomes another, a number, or an expression."""
    names = _symbols(line)
    if not names:
        return line
    name = rng.choice(names)
    other = symbol(rng.choice([*names, *NAMES]))
    new = rng.choice([const(0), const(1), const(1), const(2), const(3), other, other, other + 1, 2 * other])
    return _with_sizes(line, {name: new})


def _one_size(line: Line, rng: random.Random, registry: Registry) -> Line:
    """One axis of one leaf gets another size."""
    leaf = _choose(line, rng, Leaf, lambda each: bool(each.type.dims))
    if leaf is None:
        return line
    dims = list(leaf.type.dims)
    dims[rng.randrange(len(dims))] = _some_size(rng, line)
    return _replaced(line, leaf, Leaf(leaf.name, TensorType(leaf.type.dtype, tuple(dims))))


def _dtype(line: Line, rng: random.Random, registry: Registry) -> Line:
    """All leaves and constants of one dtype get another one, or the dtype that an op names changes."""
    dtypes = sorted({each.type.dtype for each in parts(line.left) if isinstance(each, Leaf)})
    new = rng.choice(DTYPES)
    if dtypes and rng.random() < 0.7:
        old = rng.choice(dtypes)

        def change(term: Term) -> Term:
            if isinstance(term, Leaf) and term.type.dtype == old:
                return Leaf(term.name, TensorType(new, term.type.dims))
            if isinstance(term, Constant) and term.array.dtype == numpy_dtype(old) and not is_complex(new):
                sign = -1 if is_float(new) and rng.random() < 0.5 and not term.array else 1  # 0 becomes 0.0 or -0.0
                with np.errstate(all="ignore"):
                    return Constant(np.array(sign * term.array.astype(numpy_dtype(new)), numpy_dtype(new)))
            return term

        return replace(line, left=_walk(line.left, change))
    op = _choose(line, rng, Apply, lambda each: any(a.kind == "dtype" for a in registry[each.op].attrs))
    if op is None:
        return line
    names = [attr.name for attr in registry[op.op].attrs if attr.kind == "dtype"]
    return _replaced(line, op, replace(op, attrs={**op.attrs, rng.choice(names): new}))


def _axes(line: Line, rng: random.Random, registry: Registry) -> Line:
    """An axis list is shuffled, or one axis becomes another."""
    op = _choose(line, rng, Apply, lambda each: any(a.kind in ("axes", "int") for a in registry[each.op].attrs))
    if op is None:
        return line
    attr = rng.choice([a for a in registry[op.op].attrs if a.kind in ("axes", "int") and a.name in op.attrs] or [None])
    if attr is None:
        return line
    value = op.attrs[attr.name]
    new: Any
    if attr.kind == "int":
        new = rng.choice((0, 1, 2, value + 1, -value))
    else:
        new = list(value)
        if rng.random() < 0.6:
            rng.shuffle(new)
        elif new:
            new[rng.randrange(len(new))] = rng.randrange(len(new) + 1)
        new = tuple(new)
    return _replaced(line, op, replace(op, attrs={**op.attrs, attr.name: new}))


def _attr_size(line: Line, rng: random.Random, registry: Registry) -> Line:
    """One size in an op's attribute becomes another."""

    def has_sizes(each: Apply) -> bool:
        return any(isinstance(value, tuple) and value and isinstance(value[0], Dim) for value in each.attrs.values())

    op = _choose(line, rng, Apply, has_sizes)
    if op is None:
        return line
    keys = [key for key, value in op.attrs.items() if isinstance(value, tuple) and value and isinstance(value[0], Dim)]
    key = rng.choice(keys)
    sizes = list(op.attrs[key])
    sizes[rng.randrange(len(sizes))] = _some_size(rng, line)
    return _replaced(line, op, replace(op, attrs={**op.attrs, key: tuple(sizes)}))


def _function(line: Line, rng: random.Random, registry: Registry) -> Line:
    """An elementwise op becomes another one."""
    op = _choose(line, rng, Apply, lambda each: registry[each.op].family in ELEMENTWISE)
    if op is None:
        return line
    family = registry[op.op].family
    names = [decl.name for decl in registry if decl.family == family and not decl.attrs]
    return _replaced(line, op, replace(op, op=rng.choice(names), attrs={})) if names and not op.attrs else line


def _same_leaf(line: Line, rng: random.Random, registry: Registry) -> Line:
    """Two leaves become one."""
    leaves = [each for each in parts(line.left) if isinstance(each, Leaf)]
    if len(leaves) < 2:
        return line
    one, two = rng.sample(leaves, 2)
    return _replaced(line, one, two)


def _split_leaf(line: Line, rng: random.Random, registry: Registry) -> Line:
    """A leaf that stands twice becomes two."""
    places = [leaf for leaf in _standing(line.left) if isinstance(leaf, Leaf)]
    twice = [leaf for leaf in places if sum(other is leaf for other in places) > 1]
    if not twice:
        return line
    old = rng.choice(twice)
    left = rng.randrange(sum(other is old for other in places))
    new = Leaf(f"{old.name}{rng.randrange(100)}", old.type)

    def visit(term: Term) -> Term:
        nonlocal left
        if term is old:
            left -= 1
            return new if left == -1 else old
        return replace(term, operands=tuple(map(visit, term.operands))) if isinstance(term, Apply) else term

    return replace(line, left=visit(line.left))


def _standing(term: Term) -> list[Term]:
    """All parts of a term, as often as they stand in it."""
    return (
        [term, *(each for operand in term.operands for each in _standing(operand))]
        if isinstance(term, Apply)
        else [term]
    )


def _constant(line: Line, rng: random.Random, registry: Registry) -> Line:
    """A constant gets another value, or becomes a value from outside."""
    constant = _choose(line, rng, Constant)
    if constant is None:
        return line
    dtype = dtype_name(constant.array.dtype)
    if rng.random() < 0.2:
        return _replaced(line, constant, Leaf(f"k{rng.randrange(100)}", TensorType(dtype, ())))
    values = specials(dtype)
    return _replaced(line, constant, Constant(np.array(values[rng.randrange(len(values))])))


def _given(line: Line, rng: random.Random, registry: Registry) -> Line:
    """One thing that is given is no longer, so that the rule must do without."""
    if not line.given:
        return line
    dropped = rng.randrange(len(line.given))
    return replace(line, given=tuple(each for k, each in enumerate(line.given) if k != dropped))


def _rank(line: Line, rng: random.Random, registry: Registry) -> Line:
    """All leaves of one rank get another one, and ops whose attributes go with the rank new attributes."""
    ranks = sorted({len(each.type.dims) for each in parts(line.left) if isinstance(each, Leaf)})
    if not ranks:
        return line
    old, new = rng.choice(ranks), rng.randint(0, 3)
    fresh: list[Dim] = [symbol(rng.choice(NAMES)) if rng.random() < 0.8 else const(1) for _ in range(new)]
    types: dict[int, TensorType] = {}
    dice = Dice(rng, False)

    def change(term: Term) -> Term:
        out = term
        if isinstance(term, Leaf) and len(term.type.dims) == old:
            dims = (*term.type.dims[:new], *fresh[old:]) if rng.random() < 0.5 else tuple(fresh)
            out = Leaf(term.name, TensorType(term.type.dtype, dims))
        elif isinstance(term, Apply) and term.op in PUSHED:
            operand = types.get(id(term.operands[0])) if term.operands else None
            if operand is not None:
                out = replace(term, attrs={**term.attrs, **push(term.op, operand, dice)})
        found = _type_of(out, types, registry)
        if found is not None:
            types[id(out)] = found
        return out

    return replace(line, left=_walk(line.left, change))


def _resample(line: Line, rng: random.Random, registry: Registry) -> Line:
    """One op that moves elements gets attributes of its own choice."""
    types: dict[int, TensorType] = {}

    def note(term: Term) -> Term:
        found = _type_of(term, types, registry)
        if found is not None:
            types[id(term)] = found
        return term

    left = _walk(line.left, note)
    line = replace(line, left=left)
    op = _choose(line, rng, Apply, lambda each: each.op in PUSHED and id(each.operands[0]) in types)
    if op is None:
        return line
    return _replaced(
        line, op, replace(op, attrs={**op.attrs, **push(op.op, types[id(op.operands[0])], Dice(rng, False))})
    )


def _repaired(line: Line, rng: random.Random, registry: Registry) -> Line:
    """Ops that move elements and do not fit what they are given any more get attributes that do."""
    types: dict[int, TensorType] = {}
    dice = Dice(rng, False)

    def change(term: Term) -> Term:
        out = term
        if isinstance(term, Apply) and term.op in PUSHED:
            operand = types.get(id(term.operands[0]))
            if operand is not None and not _fits(term, operand, registry):
                out = replace(term, attrs={**term.attrs, **push(term.op, operand, dice)})
        found = _type_of(out, types, registry)
        if found is not None:
            types[id(out)] = found
        return out

    return replace(line, left=_walk(line.left, change))


def _fits(term: Apply, operand: TensorType, registry: Registry) -> bool:
    """Whether an op surely takes its operand, as far as forms show."""
    if _type_of(term, {id(term.operands[0]): operand}, registry) is None:
        return False
    if term.op == "reshape":
        return product(operand.dims) is product(term.attrs["shape"])
    if term.op == "broadcast_in_dim":
        targets = [term.attrs["shape"][axis] for axis in term.attrs["dims"]]
        return all(size.const == 1 or size is target for size, target in zip(operand.dims, targets, strict=True))
    return True


def _type_of(term: Term, types: Mapping[int, TensorType], registry: Registry) -> TensorType | None:
    if isinstance(term, Leaf):
        return term.type
    if isinstance(term, Constant):
        return None
    operands = [types.get(id(each)) for each in term.operands]
    known = [each for each in operands if each is not None]
    if len(known) < len(operands) or registry[term.op].regions:
        return None
    try:
        found = registry[term.op].shape(*known, **term.attrs)
    except Exception:  # whatever a shape function says to nonsense
        return None
    if isinstance(found, list):
        return None
    dtype, shape = (found.dtype, found.shape) if isinstance(found, TensorType) else found
    return None if shape is None or None in shape else TensorType(dtype, shape)


_MUTATIONS: Sequence[Callable[[Line, random.Random, Registry], Line]] = (
    _merge_symbols,
    _merge_symbols,
    _one_size,
    _one_size,
    _dtype,
    _dtype,
    _axes,
    _axes,
    _attr_size,
    _attr_size,
    _function,
    _same_leaf,
    _split_leaf,
    _constant,
    _constant,
    _given,
    _rank,
    _resample,
    _resample,
)
