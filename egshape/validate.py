"""Hold an optimized graph against the original: both are interpreted at a few small sizes, violating ones too.

Nothing of the engine or of the prover is used here. Results must agree bit for bit (any NaN is any NaN, -0.0 is
not 0.0), and both graphs must reject the same sizes. Where a fact that was stated is violated, the optimized
graph must reject; it may also reject where integer shape code would wrap.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np

from egshape.dims import Dim
from egshape.errors import CheckFailed, DoesNotFit, EgshapeError, InternalError, UndefinedSize
from egshape.estimate import Estimate, element_bytes
from egshape.facts import Facts, Relation
from egshape.guest import LARGEST_MB, GuestLost, host, ready, run_call
from egshape.ir.drawn import inputs_at
from egshape.ir.graph import Graph, Op, Value
from egshape.ir.interpret import interpret
from egshape.ir.points import Point, points_of
from egshape.ir.types import TEXT
from egshape.limits import LimitReached, held, holding, resident_mb, tick
from egshape.ops import REGISTRY
from egshape.ops.host import HOST_CALLS, running_by, trusts, unresolved

MAX_COST = 3_000_000
"""Elements computed by one run of one graph, estimated; sizes that cost more are left out."""

MAX_SPENT = 10 * MAX_COST
"""Elements computed by one run of one graph, counted while it runs, in loops and at sizes that data gives too."""

MAX_BYTES = LARGEST_MB << 20
"""Bytes of the results of one run of one graph, counted while it runs. A reference needs some times as much for itself,
bounded by the elements that it computes, so a run in this process stays small."""

MAX_SPENT_BYTES = 4 * MAX_BYTES

MOST_MB = 300
"""What a run in this process may take beyond what the process has."""

_COSTLY = "sizes that cost too much were left out"

MAX_LOOP = 200
"""Rounds of a loop; a run that needs more says nothing."""

_FAULTS = frozenset(("invalid-graph", "unbound-symbol", "unknown-op", "internal"))
"""Codes of errors that no program has: an optimized graph never raises them."""

_REPEATS = 8
"""Runs after which a program that draws random bits has given other ones."""


@dataclass(frozen=True)
class Verdict:
    """What validation found. ``accepted`` and ``rejected`` count the points at which the original ran to its end
    and at which it refused the sizes; ``skipped`` says why nothing, or less than planned, was compared."""

    differences: tuple[str, ...] = ()
    accepted: int = 0
    rejected: int = 0
    skipped: str = ""

    @property
    def compared(self) -> int:
        """The number of points at which both graphs were run."""
        return self.accepted + self.rejected


@dataclass(frozen=True)
class Outcome:
    """What a graph did at one point: its results, or the error."""

    results: tuple[np.ndarray, ...] = ()
    error: EgshapeError | None = None


class _Inconclusive(Exception):
    """A run that says nothing: out of time, or more rounds of a loop than are allowed."""


MOST_AXES = 64
"""Axes that an array of numpy may have."""


def validate(original: Graph, optimized: Graph, facts: Facts, *, seconds: float = 2.0) -> list[str]:
    """The differences found at a few small sizes, the first one only; empty if there is none.

    ``facts`` are those that the optimized graph relies on, in the graph's own symbols. Ends after ``seconds``.
    The same graphs give the same answer, but for the time limit."""
    return list(compare(original, optimized, facts, seconds=seconds).differences)


def compare(
    original: Graph, optimized: Graph, facts: Facts, *, seconds: float = 2.0, tolerance: float = 0.0
) -> Verdict:
    """As ``validate``, with how much was compared, and why something was not.

    ``tolerance``: a relative difference that floats may have (approximate rules were in use); 0 is none, to the bit."""
    reason = unfit(original)
    if reason:
        return Verdict(skipped=reason)
    try:
        with _foreign(original, seconds) as deadline:
            return _compared(original, optimized, facts, deadline, tolerance)
    except GuestLost as lost:
        return Verdict(skipped=lost_guest(lost))


def _compared(original: Graph, optimized: Graph, facts: Facts, deadline: float, tolerance: float) -> Verdict:
    estimates = [Estimate(original), Estimate(optimized)]
    accepted = rejected = 0
    skipped = ""
    for number, point in enumerate(points_of(original, optimized, facts)):
        if time.monotonic() >= deadline:
            skipped = skipped or late()
            break
        if any(each.work(point.sizes) > MAX_COST or each.largest(point.sizes) > MAX_BYTES for each in estimates):
            skipped = skipped or _COSTLY
            continue
        arrays = inputs_at(original, point, number)
        if arrays is None:
            continue
        try:
            before = _wanted(original, arrays, deadline)
            after = _run(optimized, arrays, deadline)
        except _Inconclusive as stop:
            skipped = skipped or str(stop)
            continue
        except GuestLost as lost:
            skipped = skipped or lost_guest(lost)
            if lost.limit:
                break
            continue
        found = _difference(before, after, violated_fact(facts, sizes_at(original, point, arrays)), tolerance)
        if found and _draws(original, arrays, before, deadline):
            skipped = skipped or "not compared: the program draws random numbers"
            continue
        if found:
            place = ", ".join(f"{name} = {size}" for name, size in point.sizes.items())
            return Verdict((f"at {place}: {found}" if place else found,), accepted, rejected, skipped)
        accepted += before.error is None
        rejected += before.error is not None
    return Verdict((), accepted, rejected, skipped)


@contextmanager
def _foreign(graph: Graph, seconds: float) -> Iterator[float]:
    """Gives when so many seconds are over. Host calls that are made inside run in a guest, which is ready before time
    is counted, and killed when it is over."""
    calls = {op.attrs["call"] for op in graph.body.walk() if op.name in HOST_CALLS}
    if not calls:
        yield time.monotonic() + seconds
        return
    with host() as lent:
        ready(lent, calls)
        deadline = time.monotonic() + seconds
        with running_by(partial(run_call, lent, until=deadline)):
            yield deadline


def lost_guest(lost: GuestLost) -> str:
    """What is said where the process that ran foreign code was killed, or ended by itself."""
    if lost.limit:
        return late(lost.limit)
    return "sizes at which foreign code ended its process were left out"


def late(limit: str = "seconds") -> str:
    """What is said where a limit ended the comparison, and not the optimization."""
    return f"the comparison with the original was stopped at the limit of {limit}"


def trusting(graph: Graph) -> str:
    """A call that must not run with invented data, "" if there is none."""
    calls = (op for op in graph.body.walk() if op.name in HOST_CALLS and trusts(op.attrs["call"]))
    return next((str(op.attrs["target"]) for op in calls), "")


def unfit(graph: Graph) -> str:
    """Why a graph cannot be interpreted at small sizes, "" if it can."""
    for op in graph.body.walk():
        if op.name == "custom_call":
            return f"not validated: it calls {op.attrs['target']!r}, which only its own back end can run"
        if op.name in HOST_CALLS and unresolved(op.attrs["call"]):
            return f"not validated: {op.attrs['target']} cannot be run here"
        if op.name == "host_effect":
            return f"not validated: {op.attrs['target']} may give other results each time"
    if trusting(graph):
        return f"not validated: {trusting(graph)} may end the process for inputs that are not a program's own"
    if any(value.type.dtype == TEXT for value in graph.inputs):
        return "not validated: an input is text"
    if any(value.type.shape is None for value in graph.inputs):
        return "not validated: an input has no known rank"
    if any(len(value.type.shape or ()) > MOST_AXES for value in (*graph.inputs, *_results(graph))):
        return f"not validated: a tensor has more than {MOST_AXES} axes, which no array can have"
    if Estimate(graph).fixed > MAX_COST:
        return "not validated: its constants and fixed sizes are too large to interpret"
    return ""


def _results(graph: Graph) -> Iterator[Value]:
    return (value for op in graph.body.walk() for value in op.results)


def _spent(op: Op, sizes: Mapping[str, int]) -> int:
    """The elements that an op computes at these sizes; a long sum of nothing takes its time too. Sizes that only the op
    itself tells are left out."""
    made = (op.results[0].type.shape or ()) if op.results else ()
    return _number(REGISTRY[op.name].traits.cost.inner(op), sizes) * max(_number(made, sizes), 1)


def _largest(op: Op, sizes: Mapping[str, int]) -> int:
    """Bytes of its largest result."""
    return max(
        (_number(each.type.shape or (), sizes) * element_bytes(each.type.dtype) for each in op.results), default=0
    )


def _number(dims: Sequence[Dim], sizes: Mapping[str, int]) -> int:
    total = 1
    for dim in dims:
        try:
            total *= max(dim.evaluate(sizes), 0)
        except EgshapeError:
            continue
    return total


# -- runs ----------------------------------------------------------------------------------------------------------


def _run(graph: Graph, arrays: Sequence[np.ndarray], deadline: float, *, fits: bool = True) -> Outcome:
    """Interpret a graph. Without ``fits`` integers of shape code may wrap, as they do in the program itself."""

    spent = made = 0

    def meter(op: Op, sizes: Mapping[str, int]) -> None:
        nonlocal spent
        spent += _spent(op, sizes)
        tick()
        if spent > MAX_SPENT or _largest(op, sizes) > MAX_BYTES:
            raise _Inconclusive(_COSTLY)

    def count(op: Op, results: Sequence[np.ndarray]) -> None:
        nonlocal made
        made += sum(each.nbytes for each in results if each.base is None)
        if made > MAX_SPENT_BYTES:
            raise _Inconclusive(_COSTLY)

    copies = [array.copy() for array in arrays]
    try:
        with np.errstate(all="ignore"), _bounded(deadline):
            found = interpret(graph, copies, trace=count, meter=meter, max_while=MAX_LOOP, check_requires=fits)
        return Outcome(tuple(found))
    except MemoryError:
        raise _Inconclusive("not run to its end: it needs more memory than there is") from None
    except EgshapeError as error:
        if error.code in ("loop-limit", "unsupported"):
            raise _Inconclusive(f"not run to its end: {error}") from None
        return Outcome(error=error)
    except (LimitReached, GuestLost, _Inconclusive):
        raise
    except Exception as error:  # of a function of the user that an op calls, or a fault of ours
        return Outcome(error=InternalError(f"{type(error).__name__}: {error}"))


@contextmanager
def _bounded(deadline: float) -> Iterator[None]:
    """A run may take so long, and ``MOST_MB``; one that takes more says nothing, unless the limits of all are met."""
    until, memory_mb = held()
    try:
        with holding(deadline, resident_mb() + MOST_MB):
            yield
    except LimitReached as reached:
        if time.monotonic() >= until or resident_mb() > memory_mb:
            raise
        raise _Inconclusive(late() if reached.limit == "seconds" else _COSTLY) from None


def rejects(graph: Graph, arrays: Sequence[np.ndarray], seconds: float = 2.0) -> bool:
    """Whether a program itself does not admit these inputs, as far as a short run tells."""
    try:
        with _foreign(graph, seconds) as deadline:
            return isinstance(_run(graph, arrays, deadline).error, CheckFailed)
    except (GuestLost, _Inconclusive):
        return False


def _wanted(graph: Graph, arrays: Sequence[np.ndarray], deadline: float) -> Outcome:
    """What the original does. Where shape code wraps, it is what the wrapped sizes give."""
    found = _run(graph, arrays, deadline)
    if isinstance(found.error, InternalError):
        raise _Inconclusive(f"not run to its end: {found.error}")
    if found.error is None or not isinstance(found.error, DoesNotFit):
        return found
    wrapped = _run(graph, arrays, deadline, fits=False)
    return found if wrapped.error is not None and wrapped.error.code == "inference" else wrapped


def _draws(graph: Graph, arrays: Sequence[np.ndarray], before: Outcome, deadline: float) -> bool:
    """Whether a program with calls that are not ours gives other results when it is run again."""
    if all(op.name != "host_call" for op in graph.body.walk()):
        return False
    try:
        runs = (_run(graph, arrays, deadline) for _ in range(_REPEATS))
        return any(_difference(before, again, None, 0.0) for again in runs)
    except _Inconclusive:
        return False


def sizes_at(graph: Graph, point: Point, arrays: Sequence[np.ndarray]) -> dict[str, int]:
    """The sizes that the inputs give, those that are elements of them too."""
    given = dict(zip(graph.inputs, arrays, strict=True))
    held = {
        each.name: int(given[each.value].reshape(-1)[each.element]) + each.offset
        for each in graph.body.symbols
        if each.element is not None and each.value in given and given[each.value].size > each.element
    }
    return {**point.env, **held}


def violated_fact(facts: Facts, env: dict[str, int]) -> Relation | None:
    """The first stated fact that is false or undefined at these sizes."""
    for relation in facts.statements():
        if relation.symbols() <= env.keys():
            try:
                if not relation.holds(env):
                    return relation
            except UndefinedSize:
                return relation
    return None


# -- comparing -----------------------------------------------------------------------------------------------------


def _difference(before: Outcome, after: Outcome, violated: Relation | None, tolerance: float) -> str:
    """Why two outcomes may not stand for each other, "" if they may."""
    if after.error is not None:
        if after.error.code in _FAULTS:
            return f"the result is broken: {after.error}"
        if before.error is None and violated is None and not isinstance(after.error, DoesNotFit):
            return f"the original runs, the result is rejected: {after.error}"
        return ""
    if violated is not None:
        return f"the fact {violated.text} does not hold, but the result is not rejected"
    if before.error is not None:
        return f"the original is rejected, the result runs: {before.error}"
    if len(before.results) != len(after.results):
        return f"{len(before.results)} outputs became {len(after.results)}"
    for number, (one, two) in enumerate(zip(before.results, after.results, strict=True)):
        found = array_difference(one, two)
        if found and not (tolerance and near(one, two, tolerance)):
            return f"output {number} {found}"
    return ""


def near(one: np.ndarray, two: np.ndarray, tolerance: float) -> bool:
    """Whether two float arrays agree within a relative tolerance, NaN and infinities in the same places."""
    if one.dtype != two.dtype or one.shape != two.shape or one.dtype.kind not in "fcV":
        return False
    wide = np.complex128 if one.dtype.kind == "c" else np.float64
    least = tolerance * float(np.finfo(np.float32).tiny)
    return bool(np.allclose(one.astype(wide), two.astype(wide), rtol=tolerance, atol=least, equal_nan=True))


def array_difference(one: np.ndarray, two: np.ndarray) -> str:
    """Where two arrays differ in type, shape or bits (any NaN equals any NaN), "" if nowhere."""
    if one.dtype != two.dtype or one.shape != two.shape:
        return f"was {one.dtype}{list(one.shape)}, is {two.dtype}{list(two.shape)}"
    different = np.zeros(one.shape, np.bool_)
    for left, right in _parts(one, two):
        nans = (left != left) & (right != right)  # noqa: PLR0124 - true for NaN only
        different |= (_bits(left) != _bits(right)) & ~nans
    if not different.any():
        return ""
    place = tuple(int(axis) for axis in np.argwhere(different)[0])
    return f"differs at {list(place)}: {one[place]} became {two[place]} ({int(different.sum())} of {one.size})"


def _parts(one: np.ndarray, two: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    if one.dtype.kind == "c":
        yield one.real, two.real
        yield one.imag, two.imag
    else:
        yield one, two


def _bits(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind in "iubO":  # text has no bits
        return array
    return np.ascontiguousarray(array).reshape(array.shape).view(f"u{array.dtype.itemsize}")
