"""What is wrong with a ruleset file, with the place, the line itself, a caret and a way out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from egshape.errors import EgshapeError
from egshape.rulelang.sexpr import Atom, Position, SExpr

ERROR = "error"
WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One mistake. ``code`` is a stable name of its kind; ``length`` columns from ``at`` are underlined."""

    code: str
    message: str
    at: Position
    hint: str = ""
    length: int = 1
    severity: str = ERROR
    rule: str = ""

    def error(self) -> EgshapeError:
        """The same as an exception (code "rules")."""
        where = str(self.at) if self.at.column else f"{self.at.file}:{self.at.line}"
        return EgshapeError(self.message, where=where, hint=self.hint, code="rules")

    def render(self, lines: Sequence[str]) -> str:
        """The message with the line of the file and a caret below it; ``lines`` are the file's."""
        out = [f"{self.at.file}:{self.at.line}:{self.at.column}: {self.severity}: {self.message} [{self.code}]"]
        if 0 < self.at.line <= len(lines):
            shown, start = _window(lines[self.at.line - 1].rstrip(), max(self.at.column - 1, 0))
            length = max(1, min(self.length, len(shown) - start)) if len(shown) > start else 1
            margin = f"{self.at.line:>5} | "
            out += [margin + shown, " " * (len(margin) - 2) + "| " + " " * start + "^" + "~" * (length - 1)]
        if self.hint:
            out.append(f"      = hint: {self.hint}")
        return "\n".join(out)


_WIDTH = 110


def _window(line: str, column: int) -> tuple[str, int]:
    """A long line cut to what stands around a column: the text, and the column in it."""
    line = line.replace("\t", " ")
    if len(line) <= _WIDTH:
        return line, column
    first = max(0, min(column - _WIDTH // 2, len(line) - _WIDTH))
    shown = line[first : first + _WIDTH]
    if first:
        shown = "..." + shown[3:]
    if first + _WIDTH < len(line):
        shown = shown[:-3] + "..."
    return shown, column - first


def width(expr: SExpr) -> int:
    """Columns of an atom; of a list, its opening and its head."""
    if isinstance(expr, Atom):
        return len(expr.text)
    return 1 + len(expr.head) if expr.head else 1


def wrong(expr: SExpr, code: str, message: str, hint: str = "", *, rule: str = "", severity: str = ERROR) -> Diagnostic:
    """A diagnostic that underlines an expression."""
    return Diagnostic(code, message, expr.at, hint, width(expr), severity, rule)
