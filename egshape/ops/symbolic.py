"""Python functions of sizes, run with sizes that are not known.

A comparison of sizes gives a ``Truth``. Where Python asks whether it is true (``if``, ``assert``, ``while``, ``min``),
the forms and what was decided before answer; where they cannot, the function is run once for each answer. ``explore``
gives the tree of all runs: which question parts them, and how each ends."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from types import FrameType
from typing import Any, NoReturn, TypeAlias

from egshape.decide.context import Context
from egshape.dims import Dim, const, is_nonnegative, maximum, minimum, relu
from egshape.errors import Contradiction, EgshapeError
from egshape.facts import Relation

MOST_RUNS = 128
"""More ends a function must not have."""

MOST_QUESTIONS = 24
"""More undecided questions one run must not ask: a loop that goes on while sizes are this or that has no end."""


@dataclass(frozen=True)
class Question:
    """A comparison that was undecided, and the line that asked it."""

    relation: Relation
    line: str

    def answered(self, answer: bool) -> Relation:
        """What holds where the answer is this one."""
        return self.relation if answer else self.relation.negated()


@dataclass(frozen=True)
class Given:
    """A run that ended: what the function gave, and what is known of sizes there."""

    value: Any
    context: Context


@dataclass(frozen=True)
class Refused:
    """A run that the function refused, with its words."""

    message: str


@dataclass(frozen=True)
class Stuck:
    """A run that needs to know more of a size than how it compares."""

    message: str
    hint: str


@dataclass(frozen=True)
class Fork:
    """Two ways to go on."""

    question: Question
    yes: Tree
    no: Tree


Tree: TypeAlias = Given | Refused | Stuck | Fork


class Undecided(EgshapeError):
    """The type of a result hangs on sizes that are not known well enough."""

    default_code = "undecided"


class _Stop(BaseException):
    """Ends a run; no handler of the function takes it for its own."""

    def __init__(self, end: Stuck | None) -> None:
        super().__init__(end)
        self.end = end


class _Run:
    """One run, which answers the first questions as ``answers`` says and later ones with yes."""

    def __init__(self, answers: tuple[bool, ...]) -> None:
        self.answers = answers
        self.asked: list[tuple[Question, bool]] = []
        self.context = Context()
        self.parted = False
        """Whether a question was asked that is more than whether a divisor is 0."""

    def decide(self, relation: Relation, parts: bool = True) -> bool:
        """Whether a relation holds, in this run."""
        answer = self.context.decide(relation)
        if answer != "unknown":
            return answer == "proved"
        self.parted |= parts
        if len(self.asked) == MOST_QUESTIONS:
            self.stop(f"asks more than {MOST_QUESTIONS} questions about sizes", "a loop over unknown sizes has no end")
        number = len(self.asked)
        taken = self.answers[number] if number < len(self.answers) else True
        question = Question(relation, _line())
        self.asked.append((question, taken))
        try:
            self.context.assume(question.answered(taken))
        except Contradiction:  # which was not seen at once: no sizes come here
            raise _Stop(None) from None
        return taken

    def stop(self, message: str, hint: str) -> NoReturn:
        """End the run: it cannot go on."""
        raise _Stop(Stuck(f"{message}, at {_line()}", hint))

    def end(self, function: Callable[[], Any]) -> Given | Refused | Stuck | None:
        """How the function ends; None where no sizes come."""
        token = _RUNNING.set(self)
        try:
            return Given(function(), self.context)
        except _Stop as stop:
            return stop.end
        except AssertionError as error:
            return Refused(str(error) or _asserted(error))
        except ZeroDivisionError as error:
            return Refused(str(error))
        finally:
            _RUNNING.reset(token)


_RUNNING: ContextVar[_Run | None] = ContextVar("running", default=None)


def explore(function: Callable[[], Any]) -> Tree:
    """All runs of a function. Raises what it raises, but for AssertionError and a division by 0, which refuse sizes."""
    left: list[tuple[bool, ...]] = [()]
    ends: dict[tuple[bool, ...], Given | Refused | Stuck | None] = {}
    questions: dict[tuple[bool, ...], Question] = {}
    while left:
        run = _Run(left.pop())
        found = run.end(function)
        taken = tuple(answer for _, answer in run.asked)
        ends[taken] = found
        for number in range(len(run.answers), len(taken)):
            questions[taken[:number]] = run.asked[number][0]
            left.append((*taken[:number], False))
        if len(ends) + len(left) > MOST_RUNS:
            raise Undecided(
                f"more than {MOST_RUNS} runs are needed for all answers to its questions, such as "
                f"`{run.asked[-1][0].relation}` at {run.asked[-1][0].line}",
                hint="ask less of sizes, or give facts that decide it",
            )

    def tree(place: tuple[bool, ...]) -> Tree | None:
        if place in ends:
            return ends[place]
        yes, no = tree((*place, True)), tree((*place, False))
        return Fork(questions[place], yes, no) if yes is not None and no is not None else yes or no

    whole = tree(())
    assert whole is not None, "some sizes come through"
    return whole


class _Settled(_Run):
    """A run that must not part."""

    def __init__(self, known: Iterable[Relation]) -> None:
        super().__init__(())
        for each in known:
            with suppress(Contradiction):  # no sizes come here: any answer is right
                self.context.assume(each)

    def decide(self, relation: Relation, parts: bool = True) -> bool:
        answer = self.context.decide(relation)
        if answer == "unknown" and parts:
            self.stop(f"asks whether {relation}", "nothing decides it; an assert of the shape function would")
        return answer != "refuted"


def settled(function: Callable[[], Any], known: Iterable[Relation]) -> Any:
    """What a function gives of which all questions must be decided by what is known; a divisor may be 0, and is then
    what the result hangs on. Raises Undecided, or EgshapeError with the words of an ``assert`` that fails."""
    end = _Settled(known).end(function)
    if isinstance(end, Given):
        return end.value
    assert end is not None, "a run that does not part has an end"
    raise Undecided(end.message, hint=end.hint) if isinstance(end, Stuck) else EgshapeError(end.message)


# -- sizes ----


class Size:
    """A size of a run. It knows ``+ - * // % **``, comparisons, ``min``, ``max``, ``abs`` and ``sum``."""

    __slots__ = ("dim",)

    def __init__(self, dim: Dim) -> None:
        self.dim = dim

    @property
    def const(self) -> int | None:
        """The number that it always is, or None."""
        return self.dim.const

    def __add__(self, other: Any) -> Any:
        return _made(lambda one, two: one + two, self, other)

    def __radd__(self, other: Any) -> Any:
        return _made(lambda one, two: one + two, other, self)

    def __sub__(self, other: Any) -> Any:
        return _made(lambda one, two: one - two, self, other)

    def __rsub__(self, other: Any) -> Any:
        return _made(lambda one, two: one - two, other, self)

    def __mul__(self, other: Any) -> Any:
        return self._repeated(other) if isinstance(other, (list, tuple, str)) else _made(_times, self, other)

    def __rmul__(self, other: Any) -> Any:
        return self._repeated(other) if isinstance(other, (list, tuple, str)) else _made(_times, other, self)

    def _repeated(self, items: Any) -> Any:
        return items * int(self)

    def __floordiv__(self, other: Any) -> Any:
        return _made(_quotient, self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _made(_quotient, other, self)

    def __mod__(self, other: Any) -> Any:
        return _made(_rest, self, other)

    def __rmod__(self, other: Any) -> Any:
        return _made(_rest, other, self)

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __pow__(self, power: int) -> Size:
        found = Size(const(1))
        for _ in range(power):
            found = found * self
        return found

    def __neg__(self) -> Size:
        return Size(-self.dim)

    def __pos__(self) -> Size:
        return self

    def __abs__(self) -> Size:
        return Size(_magnitude(self.dim))

    def __truediv__(self, other: Any) -> NoReturn:
        raise TypeError("a size is a whole number: divide it with //")

    __rtruediv__ = __truediv__

    def __eq__(self, other: object) -> Any:
        return _compared(self, "==", other)

    def __ne__(self, other: object) -> Any:
        return _compared(self, "!=", other)

    def __hash__(self) -> int:
        if self.dim.const is None:
            raise TypeError(f"no set or dict can hold {self.dim}, which may equal others: compare sizes with ==")
        return hash(self.dim.const)

    def __lt__(self, other: Any) -> Any:
        return _compared(self, "<", other)

    def __le__(self, other: Any) -> Any:
        return _compared(self, "<=", other)

    def __gt__(self, other: Any) -> Any:
        return _compared(self, ">", other)

    def __ge__(self, other: Any) -> Any:
        return _compared(self, ">=", other)

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __index__(self) -> int:
        if self.dim.const is not None:
            return self.dim.const
        if (run := _RUNNING.get()) is None:
            raise TypeError(f"the size {self.dim} is no number")
        low, high = run.context.bounds(self.dim)
        if low is None or low != high:
            run.stop(f"wants the number that {self.dim} is", f"it is not known; only a fixed {self.dim} would do")
        return low

    __int__ = __index__

    def __of_sizes__(self, function: Callable[..., Dim], args: tuple[Any, ...]) -> Size:
        """What a declared size function gives for sizes of a run."""
        return Size(function(*(dim_of(each) for each in args)))

    def __str__(self) -> str:
        return str(self.dim)

    def __repr__(self) -> str:
        return f"Size({self.dim})"


class Truth:
    """A comparison of sizes. Asked whether it is true, it decides, or parts the run."""

    __slots__ = ("relation",)

    def __init__(self, relation: Relation) -> None:
        self.relation = relation

    def __bool__(self) -> bool:
        run = _RUNNING.get()
        return _by_form(self.relation) if run is None else run.decide(self.relation)

    def __and__(self, other: Any) -> bool:
        return bool(self) and bool(other)

    def __or__(self, other: Any) -> bool:
        return bool(self) or bool(other)

    __rand__, __ror__ = __and__, __or__

    def __add__(self, other: Any) -> Any:
        return int(self) + other

    def __mul__(self, other: Any) -> Any:
        return int(self) * other

    __radd__, __rmul__ = __add__, __mul__

    def __invert__(self) -> Truth:
        return Truth(self.relation.negated())

    def __index__(self) -> int:
        return int(bool(self))

    __int__ = __index__

    def __repr__(self) -> str:
        return f"Truth({self.relation})"


def _by_form(relation: Relation) -> bool:
    """The truth of a relation where no function runs."""
    answer = Context().decide(relation)
    if answer == "unknown":
        raise TypeError(f"nothing decides {relation} here")
    return answer == "proved"


def dim_of(value: Any) -> Dim:
    """What stands for a size. TypeError for anything else."""
    if isinstance(value, Size):
        return value.dim
    if isinstance(value, Dim):
        return value
    try:
        return const(value.__index__())  # numbers of numpy and truths too
    except AttributeError:
        raise TypeError(f"{value!r} is no size") from None


def _made(combine: Callable[[Dim, Dim], Dim], one: Any, two: Any) -> Any:
    if not all(isinstance(each, (Size, Dim)) or hasattr(each, "__index__") for each in (one, two)):
        return NotImplemented
    return Size(combine(dim_of(one), dim_of(two)))


def _times(one: Dim, two: Dim) -> Dim:
    return one * two


def _quotient(one: Dim, two: Dim) -> Dim:
    return one // _divisor(one, two)


def _rest(one: Dim, two: Dim) -> Dim:
    return one % _divisor(one, two)


def _divisor(one: Dim, two: Dim) -> Dim:
    """A divisor that is not 0. In a run that some sizes do not take it is one that they can divide by, too."""
    run, nonzero = _RUNNING.get(), Relation("!=", two, const(0))
    if not (run.decide(nonzero, parts=False) if run is not None else _by_form(nonzero)):
        raise ZeroDivisionError(f"{one} is divided by {two}, which is 0")
    if two.const is not None or run is None or not run.parted:
        return two
    return maximum(two, 1) if is_nonnegative(two) else two + truth(nonzero.negated())


def _compared(one: Size, kind: str, other: Any) -> Any:
    if not isinstance(other, (Size, Dim)) and not hasattr(other, "__index__"):
        return NotImplemented
    return Truth(Relation.of(one.dim, kind, dim_of(other)))


# -- truths as sizes ----


def truth(relation: Relation) -> Dim:
    """1 where a comparison holds, 0 where not."""
    gap = relation.rhs - relation.lhs
    if relation.kind in ("!=", "=="):
        apart = minimum(_magnitude(gap), 1)
        return apart if relation.kind == "!=" else 1 - apart
    return minimum(relu(gap + 1 if relation.kind == "<=" else gap), 1)


def _magnitude(dim: Dim) -> Dim:
    if is_nonnegative(dim):
        return dim
    return -dim if is_nonnegative(-dim) else relu(dim) + relu(-dim)


# -- places ----


def _line() -> str:
    """The line of the function that is running, with its text."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    assert frame is not None
    return _shown(frame.f_code.co_filename, frame.f_lineno)


def _shown(file: str, number: int) -> str:
    text = linecache.getline(file, number).strip()
    return f"line {number}" + (f": {text}" if text else "")


def _asserted(error: AssertionError) -> str:
    """What an assertion without words says."""
    places = [(trace.tb_frame.f_code.co_filename, trace.tb_lineno) for trace in _traces(error)]
    return f"fails at {_shown(*places[-1])}"


def _traces(error: BaseException) -> Iterator[Any]:
    trace = error.__traceback__
    while trace is not None:
        yield trace
        trace = trace.tb_next
