"""The body of a Python function as what a size function computes: the text behind ``:is`` or ``:python``."""

from __future__ import annotations

import ast
import inspect
import math
import textwrap
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from egshape.dims.pure import ARITIES, formula_of, language
from egshape.errors import EgshapeError
from egshape.rulelang.patterns import Word, refused
from egshape.rulelang.python_names import PythonRule
from egshape.rulelang.python_source import Source
from egshape.rulelang.sexpr import Position

_FORM = "def NAME(ARGUMENT, ...): lines of a formula, a return at the end; each argument by place, without a default"
_FORMULAS = ARITIES.keys() - {"min", "max"}
"""What only formulas call."""
_SIZES = (ast.BinOp, ast.UnaryOp, ast.Name, ast.Load, ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.USub)
_MATH = {getattr(math, name.partition(".")[2]): name for name in ARITIES if name.startswith("math.")}


@dataclass(frozen=True)
class Body:
    """How a value is computed: ``kind`` is ``:is`` or ``:python``, ``needs`` the size functions that it names."""

    params: tuple[str, ...]
    kind: str
    text: str
    needs: frozenset[str]


def read_body(source: Source) -> Body:
    """What a function says. One expression over sizes is ``:is``, all else a formula; integers and size functions that
    stand outside of it are put in. Raises EgshapeError (code "rules") with the place in Python."""
    params = _params(source)
    function = _parsed(source)
    resolving = _Resolving(source)
    body = [resolving.visit(each) for each in function.body[bool(ast.get_docstring(function)) :]]
    match body:
        case [ast.Return(value=ast.expr() as value)] if _over_sizes(value):
            return Body(params, ":is", ast.unparse(value), frozenset(resolving.needs))
    if resolving.needs:
        other = min(resolving.needs).rpartition(":")[2]
        hint = f"write one expression over sizes, or what {other} computes"
        raise refused(f"the formula of {source.function.__name__} calls the size function {other}", source.at, hint)
    formula_of(body, params, lambda cause, line, column: _refusal(source, params, cause, line, column))
    match body:
        case [ast.Return(value=ast.expr() as value)]:
            return Body(params, ":python", ast.unparse(value), frozenset())
    lines = "\n".join(map(ast.unparse, body))
    return Body(params, ":python", f"\n{textwrap.indent(lines, '  ')}", frozenset())


def _params(source: Source) -> tuple[str, ...]:
    found = inspect.signature(source.function).parameters.values()
    if not all(each.kind is each.POSITIONAL_OR_KEYWORD and each.default is each.empty for each in found):
        raise refused("a size function takes sizes only", source.at, _FORM)
    return tuple(each.name for each in found)


def _parsed(source: Source) -> ast.FunctionDef:
    """The function as its file has it, with the lines and columns that it has there."""
    try:
        text = "".join(inspect.getblock(source.lines[source.first - 1 :]))
        dedented = textwrap.dedent(text)
        (found,) = ast.parse(dedented).body
    except (SyntaxError, ValueError):  # no lines, or those of something else
        hint = "write it in a file, or in a shell that keeps what was typed"
        raise refused("the text of the function cannot be read", source.at, hint) from None
    if not isinstance(found, ast.FunctionDef):
        raise refused("a size function is no plain function", source.at, _FORM)
    ast.increment_lineno(found, source.first - 1)
    deeper = (len(text) - len(text.lstrip())) - (len(dedented) - len(dedented.lstrip()))
    for node in ast.walk(found):
        if isinstance(node, ast.expr | ast.stmt):
            node.col_offset += deeper
    return found


def _over_sizes(node: ast.expr) -> bool:
    """Whether it is one expression as sizes are written."""
    for each in ast.walk(node):
        match each:
            case ast.Call(func=ast.Name(id=name), keywords=[]) if name not in _FORMULAS:
                continue
            case ast.Constant(value=value) if type(value) is int:
                continue
        if not isinstance(each, _SIZES):
            return False
    return True


def _refusal(source: Source, params: tuple[str, ...], cause: str, line: int, column: int) -> EgshapeError:
    at = Position(str(source.file), line, column) if line > source.first else source.at  # no line of its own: no body
    known = f"{language(params)}; or one expression over sizes: cdiv, bcast, floordiv, mod, size functions"
    return refused(f"the size function {source.function.__name__}: {cause}", at, known)


class _Resolving(ast.NodeTransformer):
    """Puts in what names outside of the function mean: integers, functions of ``math``, words, size functions."""

    def __init__(self, source: Source) -> None:
        code = source.function.__code__
        self.local = {*code.co_varnames, *code.co_cellvars}
        self.outside: dict[str, Any] = dict(source.function.__globals__)
        for name, cell in zip(code.co_freevars, source.function.__closure__ or (), strict=True):
            try:
                self.outside[name] = cell.cell_contents
            except ValueError:  # it is made yet: the function itself
                continue
        self.needs: set[str] = set()

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """A name by itself."""
        return self._put(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """A name of a module."""
        found = self._put(node)
        return self.generic_visit(node) if found is node else found  # type: ignore[return-value]

    def _put(self, node: ast.expr) -> ast.expr:
        match self._meant(node):
            case PythonRule() as found:
                self.needs.add(str(found))
                new = found.rpartition(":")[2]
            case Word(name):
                new = name.rstrip("_")
            case bool():
                return node
            case int(number):
                new = str(number)
            case found if callable(found) and found in _MATH:
                new = _MATH[found]
            case _:
                return node
        made = ast.parse(new, mode="eval").body
        for each in ast.walk(made):
            ast.copy_location(each, node)
        return made

    def _meant(self, node: ast.expr) -> Any:
        match node:
            case ast.Name(id=name) if name not in self.local:
                return self.outside.get(name)
            case ast.Attribute(value=value, attr=name) if isinstance(module := self._meant(value), ModuleType):
                return getattr(module, name, None)
        return None
