"""Errors as data: what went wrong, where, and the way out.

Every error that a user can cause is an ``EgshapeError``; anything else that escapes is a fault of ours.
"""

from __future__ import annotations

LONGEST = 1200
"""Letters of a message that are shown: types of high rank are long, and what is wrong stands at the ends."""


class EgshapeError(Exception):
    """A wrong input or request.

    Args:
        message: the cause, one sentence, without the place.
        where: file, line, op or fact it is about; empty if it is about the whole request.
        hint: the way out; empty if the message says it.
        code: a stable kebab-case name that tests and tools can match on; each subclass has its own default.

    Examples:
        >>> import egshape
        >>> try:
        ...     egshape.prove("n % 2 ==")
        ... except egshape.EgshapeError as error:
        ...     print(error.code)
        parse
    """

    default_code = "input"
    exit_code = 2

    def __init__(self, message: str, *, where: str = "", hint: str = "", code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint
        self.code = code if code is not None else self.default_code

    def __str__(self) -> str:
        shown = self.message
        if len(shown) > LONGEST:
            shown = f"{shown[: LONGEST * 2 // 3]} ... {shown[-LONGEST // 3 :]}"
        head = f"{self.where}: {shown}" if self.where else shown
        return f"{head} ({self.hint})" if self.hint else head

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.where, self.hint, self.code))


def _rebuild(cls: type[EgshapeError], message: str, where: str, hint: str, code: str) -> EgshapeError:
    return cls(message, where=where, hint=hint, code=code)


class ParseError(EgshapeError):
    """Text or bytes that are not what their format says."""

    default_code = "parse"


class Unsupported(EgshapeError):
    """A valid program that uses something egshape does not know; ``where`` names the op and its location."""

    default_code = "unsupported"


class TypeMismatch(EgshapeError):
    """Operands, attributes or arrays whose rank, dtype or size cannot be right."""

    default_code = "type"


class Contradiction(EgshapeError):
    """Facts that cannot all hold; the message names the facts that clash, ``facts`` lists their texts,
    ``relations`` the statements themselves."""

    default_code = "contradiction"
    facts: tuple[str, ...] = ()
    relations: tuple[object, ...] = ()


class MissingDependency(EgshapeError):
    """An optional library is not installed; ``hint`` names the extra that brings it."""

    default_code = "dependency"


class CheckFailed(EgshapeError):
    """A check of the program is false at the sizes that it runs with."""

    default_code = "check"
    exit_code = 1


class DoesNotFit(CheckFailed):
    """An integer of shape code would wrap at the sizes that the program runs with."""


class OutputsDiffer(EgshapeError):
    """Two programs that should compute the same do not."""

    default_code = "differs"
    exit_code = 1


class EngineFault(EgshapeError):
    """The rewrite engine failed and was discarded; the caller falls back to the unoptimized program."""

    default_code = "engine"
    exit_code = 1


class UndefinedSize(EgshapeError):
    """A size has no value at the given sizes: it divides by 0."""

    default_code = "undefined-size"


class InvalidInput(EgshapeError):
    """A value given by the user that no sizes or programs can have."""

    default_code = "invalid-input"


class InternalError(EgshapeError):
    """A fault of egshape itself."""

    default_code = "internal"
    exit_code = 1
