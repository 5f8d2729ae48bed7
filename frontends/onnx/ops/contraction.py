"""Products of matrices."""

from __future__ import annotations

from egshape.dims import Dim, const
from egshape.frontends.onnx.broadcast import expand, joined
from egshape.frontends.onnx.composites import composite
from egshape.frontends.onnx.folds import fold
from egshape.frontends.onnx.node import Node
from egshape.frontends.onnx.ops.elementwise import convert
from egshape.frontends.onnx.ops.movement import transposed
from egshape.frontends.onnx.ops.shaping import reshape
from egshape.frontends.onnx.registry import onnx_op
from egshape.frontends.onnx.scope import Scope
from egshape.ir.graph import Value
from egshape.ops.contraction import summed_in


@onnx_op("MatMul")
def matmul(s: Scope, node: Node, x: Value, y: Value) -> Value:
    """numpy.matmul: one contraction, the batch axes of both brought to one shape."""
    if summed_in(x.type.dtype) != x.type.dtype:
        found = composite(s, node, (x, y), _wide_matmul)[0]
        assert isinstance(found, Value)
        return found
    return product_of(s, x, y, x.type.dtype)


def _wide_matmul(s: Scope, node: Node, x: Value, y: Value) -> Value:
    return convert(s, product_of(s, x, y, summed_in(x.type.dtype)), x.type.dtype)


def product_of(s: Scope, x: Value, y: Value, dtype: str) -> Value:
    """The last axis of x times the last but one of y, with sums in a dtype. A y without batch axes stays as it is."""
    out = _contracted(s, x, y, dtype)
    inner = y.type.dims[-2] if y.type.rank > 1 else y.type.dims[0]
    s.learn(x.type.dims[-1], inner)
    return out


def _contracted(s: Scope, x: Value, y: Value, dtype: str) -> Value:
    xs, ys = x.type.dims, y.type.dims
    if len(ys) <= 2:
        return _dot(s, x, y, 0, len(xs) - 1, max(len(ys) - 2, 0), dtype)
    if len(xs) == 1:
        row = reshape(s, x, (const(1), *xs))
        out = _contracted(s, row, y, dtype)
        return reshape(s, out, (*ys[:-2], ys[-1]))
    batch = joined(s, [xs[:-2], ys[:-2]])
    x, y = (expand(s, value, (*batch, *value.type.dims[-2:])) for value in (x, y))
    return _dot(s, x, y, len(batch), len(batch) + 1, len(batch), dtype)


def _dot(s: Scope, x: Value, y: Value, batch: int, left: int, right: int, dtype: str) -> Value:
    axes = tuple(range(batch))
    return s.one(
        "dot_general", (x, y), lhs_batch=axes, rhs_batch=axes, lhs_contract=(left,), rhs_contract=(right,), dtype=dtype
    )


@onnx_op("Gemm", composite=True)
def gemm(s: Scope, node: Node, a: Value, b: Value, c: Value | None = None) -> Value:
    """alpha A B + beta C, with A and B transposed as asked."""
    if a.type.rank != 2 or b.type.rank != 2:
        raise node.error(f"of {a.type} and {b.type}, which are no matrices")
    left, right = int(bool(node.int("transA", 0))), int(bool(node.int("transB", 0)))
    dtype = summed_in(a.type.dtype)
    out = s.one(
        "dot_general", (a, b), lhs_batch=(), rhs_batch=(), lhs_contract=(1 - left,), rhs_contract=(right,), dtype=dtype
    )
    if node.float("alpha", 1.0) != 1:
        out = s.one("multiply", (out, s.full(node.float("alpha"), out)))
    if c is None or node.float("beta", 1.0) == 0:
        return convert(s, out, a.type.dtype)
    c = convert(s, c, dtype)
    c = expand(s, c, joined(s, [out.type.dims, c.type.dims]))
    if node.float("beta", 1.0) != 1:
        c = s.one("multiply", (c, s.full(node.float("beta"), c)))
    return convert(s, s.one("add", (out, c)), a.type.dtype)


@onnx_op("Einsum", composite=True)
def einsum(s: Scope, node: Node, *values: Value) -> Value:
    """Products summed over the letters that the result does not have."""
    terms, result = _letters(node, [value.type.rank for value in values])
    value, letters = values[0], terms[0]
    value, letters = _diagonal(s, node, value, letters)
    for place in range(1, len(terms)):
        other, more = _diagonal(s, node, values[place], terms[place])
        later = set(result).union(*terms[place + 1 :])
        value, letters = _pair(s, value, letters, other, more, later)
    return _summed(s, value, letters, result)


def _letters(node: Node, ranks: list[int]) -> tuple[list[str], str]:
    """The letters of each operand and of the result; an ellipsis becomes capital placeholders."""
    left, arrow, right = node.text("equation").replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise node.error(f"has {len(ranks)} inputs for {left!r}")
    wide = [
        rank - len(term.replace("...", "")) if "..." in term else 0 for term, rank in zip(terms, ranks, strict=True)
    ]
    free = [chr(0x3B1 + place) for place in range(max(wide))]
    terms = [term.replace("...", "".join(free[len(free) - count :])) for term, count in zip(terms, wide, strict=True)]
    if arrow:
        return terms, right.replace("...", "".join(free))
    joined_ = "".join(terms)
    once = sorted(letter for letter in set(joined_) if joined_.count(letter) == 1 and letter not in free)
    return terms, "".join(free) + "".join(once)


def _diagonal(s: Scope, node: Node, value: Value, letters: str) -> tuple[Value, str]:
    """A letter that stands twice takes the diagonal: all else is masked to 0 and summed away."""
    for letter in dict.fromkeys(letters):
        while letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            rows, columns = (s.one("iota", dtype="i64", dim=axis, shape=value.type.dims) for axis in (first, second))
            here = s.one("compare", (rows, columns), direction="EQ", kind="SIGNED")
            value = fold(s, "add", s.one("select", (here, value, s.full(0, value))), (second,))
            letters = letters[:second] + letters[second + 1 :]
    return value, letters


def _pair(s: Scope, x: Value, xs: str, y: Value, ys: str, later: set[str]) -> tuple[Value, str]:
    """One contraction of two operands: shared letters that are needed later are batch axes, others are summed."""
    shared = [letter for letter in xs if letter in ys]
    sizes: dict[str, Dim] = {}
    for letter in shared:
        one, two = x.type.dims[xs.index(letter)], y.type.dims[ys.index(letter)]
        (sizes[letter],) = joined(s, [[one], [two]])
    x = expand(s, x, [sizes.get(letter, size) for letter, size in zip(xs, x.type.dims, strict=True)])
    y = expand(s, y, [sizes.get(letter, size) for letter, size in zip(ys, y.type.dims, strict=True)])
    batch = [letter for letter in shared if letter in later]
    gone = [letter for letter in shared if letter not in later]
    attrs = {
        "lhs_batch": tuple(map(xs.index, batch)),
        "rhs_batch": tuple(map(ys.index, batch)),
        "lhs_contract": tuple(map(xs.index, gone)),
        "rhs_contract": tuple(map(ys.index, gone)),
    }
    out = s.one("dot_general", (x, y), **attrs, dtype=x.type.dtype)
    rest = [letter for letter in xs + ys if letter not in shared]
    return out, "".join(batch + rest)


def _summed(s: Scope, value: Value, letters: str, result: str) -> Value:
    gone = tuple(axis for axis, letter in enumerate(letters) if letter not in result)
    if gone:
        value = fold(s, "add", value, gone)
        letters = "".join(letter for letter in letters if letter in result)
    return transposed(s, value, [letters.index(letter) for letter in result])
