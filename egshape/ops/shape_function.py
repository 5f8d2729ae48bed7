"""The shape function of a user's op: Python over sizes, made into types, and conditions on sizes.

All runs of the function (``egshape.ops.symbolic``) become one type: a size that differs between them is a choice of
sizes, written with min, max and the like. What the function refuses becomes a condition. Runs that differ in rank or
dtype cannot be one type: facts say which it is, or the type that a program states, which is then a condition too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from typing import Any

from egshape.decide.context import Context
from egshape.dims import Dim, bcast, const, is_nonnegative, maximum, minimum, product
from egshape.errors import CheckFailed, Contradiction, EgshapeError
from egshape.facts import Facts, Relation
from egshape.hints import option
from egshape.ir.types import DTYPES, TEXT, TensorType, dtype_name
from egshape.ops.symbolic import Fork, Given, Question, Refused, Size, Stuck, Tree, Undecided, dim_of, explore, truth
from egshape.rulelang.contract import Require
from egshape.rulelang.contract_compile import Condition
from egshape.rulelang.sexpr import Atom, List, Position

Loose = tuple[str, "tuple[Dim | None, ...] | None"]
Stated = tuple[str, Sequence[object] | None]
"""Dtype and sizes that a program states, of which only the number of sizes counts here."""

_KNOWN: ContextVar[tuple[Facts, ...]] = ContextVar("known", default=())
_MOST_VALUES = 4
_ANYWHERE = Position("", 0, 0)


@contextmanager
def explained(what: str, given: Iterable[object], *own: type[Exception]) -> Iterator[None]:
    """Faults of an author's function as errors that say whose, and what was given; ``own`` errors pass as they are."""
    passing: tuple[type[Exception], ...] = (EgshapeError, *own)
    try:
        yield
    except passing:
        raise
    except Exception as error:
        raise EgshapeError(
            f"{what} fails: {type(error).__name__}: {error}",
            hint=f"given were {', '.join(map(str, given))}",
            code="custom-op",
        ) from error


@contextmanager
def assuming(facts: Facts) -> Iterator[None]:
    """Programs that are read inside may take these facts, too, to say which rank or dtype a shape function gives."""
    token = _KNOWN.set((*_KNOWN.get(), facts))
    try:
        yield
    finally:
        _KNOWN.reset(token)


def assumed() -> Facts | None:
    """What ``assuming`` says; None where that is nothing, or cannot all be, which whoever checks it says better."""
    found = Facts()
    try:
        for facts in _KNOWN.get():
            found = found.merge(facts)
    except Contradiction:
        return None
    return found if _KNOWN.get() else None


def _known() -> Context | None:
    """What may decide here; None as of ``assumed``."""
    found = assumed()
    try:
        return None if found is None else Context(found)
    except Contradiction:
        return None


class Operand:
    """An operand's type as a shape function sees it."""

    def __init__(self, type: TensorType) -> None:
        self.plain = type
        """The type itself, whose sizes ``==`` compares by their form alone."""
        self.dtype = type.dtype

    @property
    def type(self) -> Operand:
        """Itself: what has a type, as values have."""
        return self

    @property
    def dims(self) -> tuple[Size, ...]:
        """The sizes. Raises EgshapeError (code "unranked") where not even their number is known."""
        if self.plain.shape is None:
            raise EgshapeError(
                f"needs the rank of an operand of the type {self.plain}",
                hint="state its type, with ? for sizes that are not known",
                code="unranked",
            )
        return tuple(map(Size, self.plain.shape))

    shape = dims

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.dims)

    def size(self, axis: int) -> Size:
        """The size of an axis, a negative one from the end."""
        return self.dims[axis]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Operand):
            return NotImplemented
        return self is other or (self.dtype == other.dtype and self.dims == other.dims)

    __hash__ = None  # type: ignore[assignment]  # sizes that may be equal are not known to be

    def __str__(self) -> str:
        return str(self.plain)


@dataclass(frozen=True)
class Result:
    """What one run gives: types, and whether they are a list."""

    types: tuple[Loose, ...]
    several: bool

    @property
    def frame(self) -> tuple[Any, ...]:
        """What must agree between runs: dtypes and ranks."""
        return (self.several, *((dtype, None if shape is None else len(shape)) for dtype, shape in self.types))


class ShapeFunction:
    """The functions ``shape`` and ``dtype`` of an op."""

    def __init__(self, name: str, shape: Callable[..., Any], dtype: Callable[..., Any] | None = None) -> None:
        self.name, self._shape, self._dtype = name, shape, dtype
        # They are asked again and again about one op: when it is built, verified, and for what it requires.
        self._kept = lru_cache(maxsize=1024)(lambda types, attrs: self._explored(types, dict(attrs)))

    def infer(
        self, types: Sequence[TensorType], attrs: Mapping[str, Any], stated: Sequence[Stated] | None = None
    ) -> Loose | list[Loose]:
        """The type of the result, or a list of types; ``stated``: those that the program states.

        Raises EgshapeError where the function refuses all sizes, fails, or leaves rank or dtype open."""
        tree = self._fitting(self._tree(types, attrs), stated)
        ends = list(_ends(tree))
        given = [end.value for end in ends if isinstance(end, Given)]
        for end in ends:
            if isinstance(end, Stuck):
                raise Undecided(f"the shape function of the custom op {self.name} {end.message}", hint=end.hint)
        if not given:
            words = next(end.message for end in reversed(ends) if isinstance(end, Refused))
            raise EgshapeError(words, code="invalid-op")
        if any(each.frame != given[0].frame for each in given):
            raise self._open(tree)
        found = [_merged(tree, number, loose) for number, loose in enumerate(given[0].types)]
        return found if given[0].several else found[0]

    def of(self, *types: TensorType, **attrs: Any) -> Loose | list[Loose]:
        """``infer``, as declarations have it."""
        return self.infer(types, attrs)

    def conditions(
        self, types: Sequence[TensorType], attrs: Mapping[str, Any], stated: Sequence[Stated] | None = None
    ) -> list[Condition]:
        """What it asserts of sizes, in order, but for what holds by form."""
        found: dict[tuple[Relation, str], list[Way]] = {}
        for way, relation, message in _refusals(self._fitting(self._tree(types, attrs), stated), ()):
            found.setdefault((relation, message), []).append(way)
        return [
            _condition(way, relation, message) for (relation, message), ways in found.items() for way in _fewest(ways)
        ]

    def hold(self, types: Sequence[TensorType], attrs: Mapping[str, Any]) -> None:
        """Raise CheckFailed unless it takes operands of these sizes, which are numbers."""
        tree = self._tree(types, attrs)
        if isinstance(tree, Refused):
            raise CheckFailed(tree.message, code="shape-mismatch")

    def _tree(self, types: Sequence[TensorType], attrs: Mapping[str, Any]) -> Tree:
        try:
            return self._kept(tuple(types), tuple(sorted(attrs.items())))
        except TypeError:  # an attribute that is no key: an array
            return self._explored(types, attrs)

    def _explored(self, types: Sequence[TensorType], attrs: Mapping[str, Any]) -> Tree:
        own = {name: shown_sizes(item) for name, item in attrs.items()}

        def run() -> Result:
            with explained(
                f"the shape function of the custom op {self.name}", types, AssertionError, ZeroDivisionError
            ):
                return self._result([Operand(each) for each in types], own)

        return explore(run)

    def _result(self, operands: Sequence[Operand], attrs: Mapping[str, Any]) -> Result:
        # The dtype first: what it refuses is refused at all sizes, whatever the shape function asks of them.
        dtype = None if self._dtype is None else self._dtype(*operands, **attrs)
        found = self._shape(*operands, **attrs)
        if dtype is not None:
            found = [*zip(dtype, found, strict=True)] if isinstance(dtype, list) else (dtype, found)
        several = isinstance(found, list)
        return Result(tuple(map(_typed, found if several else [found])), several)

    def _fitting(self, tree: Tree, stated: Sequence[Stated] | None) -> Tree:
        """The runs that give the rank and dtype that are stated; where that leaves several, those that facts allow."""
        if stated is not None:
            tree = _only(tree, [(dtype, None if shape is None else len(shape)) for dtype, shape in stated])
        is_open = any(isinstance(end, Stuck) for end in _ends(tree)) or len(_frames(tree)) > 1
        known = _known() if is_open else None
        return tree if known is None else _pruned(tree, known)

    def _open(self, tree: Tree) -> Undecided:
        """The error for runs that differ in more than sizes: the first question that parts them."""
        question, one, two = _parting(tree)
        relation, other = question.relation, question.relation.negated()
        gives = f"gives {one} where {relation}, else {two} ({question.line})"
        return Undecided(
            f"the shape function of the custom op {self.name} {gives}",
            hint=f"one of them is decided by {option('--assume', str(relation))} or {option('--assume', str(other))}",
        )


def shown_sizes(item: Any) -> Any:
    """Attributes with sizes as a shape function sees them."""
    if isinstance(item, Dim):
        return Size(item)
    if isinstance(item, tuple) and any(isinstance(each, Dim) for each in item):
        return tuple(map(shown_sizes, item))
    return item


def _typed(found: Any) -> Loose:
    """A type that a user's function gives: a type, or a dtype with sizes, which may be numbers."""
    wanted = f"{found!r} is no type (wanted: one, or a dtype such as 'f32' with sizes)"
    if isinstance(found, Operand):
        found = found.plain
    pair = (found.dtype, found.shape) if isinstance(found, TensorType) else found
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise TypeError(wanted)
    dtype, sizes = pair
    if dtype not in (*DTYPES, TEXT):
        raise TypeError(wanted)
    if sizes is None:
        return dtype, None
    try:
        return dtype, tuple(None if each is None else dim_of(each) for each in sizes)
    except TypeError:
        raise TypeError(wanted) from None


# -- the tree of runs ----


def _ends(tree: Tree) -> Iterator[Given | Refused | Stuck]:
    if isinstance(tree, Fork):
        yield from _ends(tree.yes)
        yield from _ends(tree.no)
    else:
        yield tree


def _only(tree: Tree, frame: Sequence[tuple[str, int | None]]) -> Tree:
    """The tree with runs that give another rank or dtype as refused; a stuck one gives nothing that was stated."""
    if isinstance(tree, Fork):
        return replace(tree, yes=_only(tree.yes, frame), no=_only(tree.no, frame))
    if isinstance(tree, Given):
        pairs = list(zip(tree.value.frame[1:], frame, strict=False))
        if any(one[0] != two[0] or (None not in (one[1], two[1]) and one[1] != two[1]) for one, two in pairs):
            return Refused(f"gives {_told(tree)}, not the type that the program states")
        return tree
    return Refused(tree.message)


def _pruned(tree: Tree, known: Context) -> Tree:
    """The tree without the ways that facts do not take."""
    if not isinstance(tree, Fork):
        return tree
    answer = known.decide(tree.question.relation)
    if answer != "unknown":
        return _pruned(tree.yes if answer == "proved" else tree.no, known)
    return replace(tree, yes=_pruned(tree.yes, known), no=_pruned(tree.no, known))


def _frames(tree: Tree) -> set[tuple[Any, ...]]:
    return {end.value.frame for end in _ends(tree) if isinstance(end, Given)}


def _parting(tree: Tree) -> tuple[Question, str, str]:
    """The innermost question whose answers give two ranks or dtypes, with both."""
    assert isinstance(tree, Fork)
    for side in (tree.yes, tree.no):
        if len(_frames(side)) > 1:
            return _parting(side)
    one, two = (next(_told(end) for end in _ends(side) if isinstance(end, Given)) for side in (tree.yes, tree.no))
    return tree.question, one, two


def _told(end: Given) -> str:
    return ", ".join(
        f"{dtype}[*]" if shape is None else f"{dtype}[{', '.join('?' if d is None else str(d) for d in shape)}]"
        for dtype, shape in end.value.types
    )


def _merged(tree: Tree, number: int, loose: Loose) -> Loose:
    """One result of all runs."""
    dtype, shape = loose
    if shape is None:
        return dtype, None
    return dtype, tuple(_size(tree, number, axis) for axis in range(len(shape)))


def _size(tree: Tree, number: int, axis: int) -> Dim | None:
    """One size of all runs: what all agree on, or a choice by the questions."""
    given = [end for end in _ends(tree) if isinstance(end, Given)]
    known = [(end.context, end.value.types[number][1][axis]) for end in given]
    sizes = list(dict.fromkeys(size for _, size in known))
    if len(sizes) == 1 or None in sizes:
        return sizes[0] if len(sizes) == 1 else None
    for each in _candidates(sizes):
        if all(size is each or context.decide(Relation("==", size, each)) == "proved" for context, size in known):
            return each
    assert isinstance(tree, Fork)
    sides = [side for side in (tree.yes, tree.no) if any(isinstance(end, Given) for end in _ends(side))]
    if len(sides) == 1:
        return _size(sides[0], number, axis)
    one, two = (_size(side, number, axis) for side in sides)
    assert one is not None and two is not None
    return two + truth(tree.question.relation) * (one - two)


def _candidates(sizes: Sequence[Dim]) -> Iterator[Dim]:
    """Plain sizes that several may be, each in its runs."""
    if len(sizes) <= _MOST_VALUES:
        yield from sizes
        for one, two in combinations(sizes, 2):
            yield from (maximum(one, two), minimum(one, two), bcast(one, two))


Way = tuple[Relation, ...]


def _refusals(tree: Tree, way: Way) -> Iterator[tuple[Way, Relation, str]]:
    """What must hold, each where all of ``way`` holds, with what is said where it does not."""
    if not isinstance(tree, Fork):
        return
    yes, no = tree.question.answered(True), tree.question.answered(False)
    for fails, goes in ((tree.no, yes), (tree.yes, no)):
        if isinstance(fails, Refused):
            yield way, goes, fails.message
    once = any(isinstance(side, Refused) for side in (tree.yes, tree.no))
    yield from _refusals(tree.yes, way if once else (*way, yes))
    yield from _refusals(tree.no, way if once else (*way, no))


def _fewest(ways: Sequence[Way]) -> list[Way]:
    """Ways that cover the same: two that differ in one answer are one without that question."""
    left = list(dict.fromkeys(ways))
    for one, two in combinations(left, 2):
        apart = set(one) ^ set(two)
        if len(apart) == 2 and len({*apart, *(each.negated() for each in apart)}) == 2:
            joined = tuple(each for each in one if each not in apart)
            return _fewest([*(each for each in left if each not in (one, two)), joined])
    return left


def _condition(way: Way, relation: Relation, message: str) -> Condition:
    """A condition as contracts have them: an equation, or an order. Where one of several equations must hold, that is
    one of a product."""
    kind, lhs, rhs = relation.kind, relation.lhs, relation.rhs
    choices = [*(each.negated() for each in way), relation]
    if all(each.kind == "==" for each in choices[:-1]) and kind == "==" and way:
        lhs, rhs = product(each.lhs - each.rhs for each in choices), const(0)
    elif way:
        kind, lhs, rhs = "==", product(map(truth, (*way, relation.negated()))), const(0)
    elif kind == "!=":
        gap = lhs - rhs if is_nonnegative(lhs - rhs) else rhs - lhs
        kind, lhs, rhs = ("<=", const(1), gap) if is_nonnegative(gap) else ("==", 1 - truth(relation), const(0))
    elif kind == "<":
        kind, lhs = "<=", lhs + 1
    said = Require(List((), _ANYWHERE), Atom(message, _ANYWHERE), (message,))
    return Condition(kind, lhs, rhs, said, ())


def array_type(array: Any) -> TensorType:
    """The type of an array."""
    return TensorType(dtype_name(array.dtype), tuple(map(const, array.shape)))
