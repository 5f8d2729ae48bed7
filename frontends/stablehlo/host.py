"""Ops without a declaration: carried through as they came, and run by XLA. Where the specification says what their
results look like, the sizes are those of the operands; any other size is told by the op itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from egshape.dims import Dim, const
from egshape.errors import Unsupported
from egshape.facts import Relation
from egshape.frontends.stablehlo.node import Node
from egshape.frontends.stablehlo.scope import Scope
from egshape.frontends.stablehlo.stated import check_stated
from egshape.ir import types
from egshape.ir.graph import Value
from egshape.ir.types import TensorType
from egshape.ops.host import UNKNOWN, call_of

KIND = "stablehlo"
"""The kind of host calls whose payload is a module of one op."""

DIALECTS = ("stablehlo.", "chlo.", "sdy.")
"""Ops of these are carried through where nothing here reads them."""

FOREIGN = (types.FOREIGN[0], types.FOREIGN[1:])
"""What stands for a value that is no tensor of ours: ``emit_text.FOREIGN``."""

_PURE = frozenset(
    f"stablehlo.{name}"
    for name in (
        "batch_norm_grad",
        "batch_norm_inference",
        "batch_norm_training",
        "cholesky",
        "clamp",
        "compare",
        "einsum",
        "fft",
        "get_tuple_element",
        "map",
        "reduce_precision",
        "rng_bit_generator",
        "select",
        "set_dimension_size",
        "torch_index_select",
        "triangular_solve",
        "tuple",
        "unary_einsum",
        "uniform_dequantize",
        "uniform_quantize",
    )
)
"""Ops that may be joined with equal ones, moved, and dropped where nobody reads them. All others stay where they are:
they may have state (``rng``), talk to other devices, or be something that is not known here."""

_CALLEE = {"stablehlo.custom_call": "call_target_name", "func.call": "callee"}
"""Where ops name what they call."""

Sizes = tuple["Dim | None", ...]


def carried(scope: Scope, node: Node) -> Sequence[Value]:
    """Add the op as a call of itself. Raises Unsupported for values that it cannot read."""
    operands = [scope.values[key] for key in (*node.operands, *node.captured)]
    if None in operands:
        raise Unsupported(f"{node.name} reads a value that is no tensor", where=str(node.location))
    values = [value for value in operands if value is not None]
    shapes, requires = _shapes(scope, node, values)
    target = str(node.attributes.get(_CALLEE.get(node.name, ""), ""))
    attrs = {
        "target": f"{node.name} @{target}" if target else node.name,
        "call": call_of(KIND, node.single.encode()),
        "dtypes": tuple(info.dtype or FOREIGN[0] for info in node.types),
        "ranks": tuple(-1 if shape is None else len(shape) for shape in shapes),
        "sizes": tuple(const(UNKNOWN) if size is None else size for shape in shapes for size in shape or ()),
    }
    declared = [info.declared if info.dtype else FOREIGN for info in node.types]
    results = scope.builder.add(
        "host_call" if _pure(scope, node) else "host_effect",
        values,
        attrs,
        location=node.location,
        declared=declared,
        requires=requires,
    )
    for value, info in zip(results, node.types, strict=True):
        if not info.dtype:
            scope.program.foreign[value] = info.text
    return results


def _pure(scope: Scope, node: Node) -> bool:
    if node.name == "stablehlo.custom_call":
        return not node.attributes.get("has_side_effect", False)
    return node.name in _PURE or node.name == "func.call" or _by_elements(scope, node)


def _by_elements(scope: Scope, node: Node) -> bool:
    decl = scope.program.plain.get(node.name)
    return decl is not None and decl.family in ("unary", "binary")


def _shapes(scope: Scope, node: Node, values: Sequence[Value]) -> tuple[list[Sizes | None], list[Relation]]:
    """The sizes of the results, as far as something tells them, and what must hold for that."""
    stated: list[Sizes | None] = []
    for info in node.types:
        shape = info.shape if info.dtype else FOREIGN[1]
        stated.append(None if shape is None else tuple(None if size is None else const(size) for size in shape))
    rule = _same if _by_elements(scope, node) else _RULES.get(node.name)
    if rule is None or any(value.type.shape is None for value in values):
        return stated, []
    requires: list[Relation] = []
    found = rule(scope, node, values, requires)
    out: list[Sizes | None] = []
    for given, said in zip(found, stated, strict=True):
        fits = given is not None and (said is None or len(said) == len(given))
        out.append(given if fits else said)
    return out, requires


Rule = Callable[[Scope, Node, Sequence[Value], list[Relation]], list["Sizes | None"]]


def _equal(requires: list[Relation], node: Node, one: Dim, two: Dim) -> None:
    if one is not two:
        requires.append(Relation("==", one, two, f"sizes of {node.name}"))


def _alike(*places: int) -> Rule:
    """Results that look like operands."""

    def rule(scope: Scope, node: Node, values: Sequence[Value], requires: list[Relation]) -> list[Sizes | None]:
        return [values[place].type.dims for place in places]

    return rule


def _same(scope: Scope, node: Node, values: Sequence[Value], requires: list[Relation]) -> list[Sizes | None]:
    """Operands of one shape, which is that of the results, and scalars."""
    shapes = [value.type.dims for value in values[: len(node.operands)]]
    whole = max(shapes, key=len)
    for shape in shapes:
        for one, two in zip(whole, shape, strict=False):
            _equal(requires, node, one, two)
    return [whole] * len(node.types)


def _each(scope: Scope, node: Node, values: Sequence[Value], requires: list[Relation]) -> list[Sizes | None]:
    """Every result looks like its operand."""
    return [value.type.dims for value in values[: len(node.operands)]]


def _square(requires: list[Relation], node: Node, type: TensorType) -> None:
    _equal(requires, node, *type.dims[-2:])


def _cholesky(scope: Scope, node: Node, values: Sequence[Value], requires: list[Relation]) -> list[Sizes | None]:
    _square(requires, node, values[0].type)
    return [values[0].type.dims]


def _solve(scope: Scope, node: Node, values: Sequence[Value], requires: list[Relation]) -> list[Sizes | None]:
    a, b = (value.type.dims for value in values)
    _square(requires, node, values[0].type)
    _equal(requires, node, a[-1], b[-2 if node.attributes["left_side"] else -1])
    for one, two in zip(a[:-2], b[:-2], strict=False):
        _equal(requires, node, one, two)
    return [b]


def _batch_norm(results: int) -> Rule:
    """All but the first operand (and the last of a gradient) hold one number a feature."""

    def rule(scope: Scope, node: Node, values: Sequence[Value], requires: list[Relation]) -> list[Sizes | None]:
        x = values[0].type.dims
        feature = x[node.attributes["feature_index"]]
        for value in values[1:]:
            pairs = zip(x, value.type.dims, strict=True) if value.type.rank > 1 else ((feature, value.type.dims[0]),)
            for one, two in pairs:
                _equal(requires, node, one, two)
        return [x, *[(feature,)] * (results - 1)]

    return rule


def _fft(scope: Scope, node: Node, values: Sequence[Value], requires: list[Relation]) -> list[Sizes | None]:
    """A real transform gives, and takes, half of the last axis."""
    kind = str(getattr(node.attributes["fft_type"], "text", node.attributes["fft_type"])).removesuffix(">").split()[-1]
    lengths = [const(int(length)) for length in node.attributes["fft_length"]]
    half = const((lengths[-1].const or 0) // 2 + 1)
    sizes = values[0].type.dims
    batch, real = sizes[: len(sizes) - len(lengths)], [*lengths[:-1], half]
    for one, two in zip(sizes[len(batch) :], real if kind == "IRFFT" else lengths, strict=True):
        _equal(requires, node, one, two)
    return [(*batch, *(real if kind == "RFFT" else lengths))]


def _rng(scope: Scope, node: Node, values: Sequence[Value], requires: list[Relation]) -> list[Sizes | None]:
    sizes, needed = scope.builder.sizes("rng", values[2], "shape")
    requires.extend(needed)
    check_stated(scope, node, sizes, node.types[0].shape)
    return [sizes]


def _resized(scope: Scope, node: Node, values: Sequence[Value], requires: list[Relation]) -> list[Sizes | None]:
    (size,), needed = scope.builder.sizes("set_dimension_size", values[1], "shape")
    requires.extend(
        (
            *needed,
            Relation("<=", size, values[0].type.dims[axis := node.attributes["dimension"]], f"sizes of {node.name}"),
        )
    )
    return [(*values[0].type.dims[:axis], size, *values[0].type.dims[axis + 1 :])]


def _custom_call(scope: Scope, node: Node, values: Sequence[Value], requires: list[Relation]) -> list[Sizes | None]:
    """JAX gives the shapes of results as operands, and says where they stand."""
    places = node.attributes.get("indices_of_shape_operands")
    if places is None or len(places) != len(node.types):
        return [None] * len(node.types)
    found: list[Sizes | None] = []
    for place, info in zip(places, node.types, strict=True):
        sizes, needed = scope.builder.sizes("custom_call", values[int(place)], "shape")
        requires.extend(needed)
        check_stated(scope, node, sizes, info.shape)
        found.append(sizes)
    return found


_RULES: dict[str, Rule] = {
    f"stablehlo.{name}": rule
    for name, rule in (
        ("all_reduce", _alike(0)),
        ("batch_norm_grad", _batch_norm(3)),
        ("batch_norm_inference", _batch_norm(1)),
        ("batch_norm_training", _batch_norm(3)),
        ("cholesky", _cholesky),
        ("clamp", _same),
        ("collective_broadcast", _alike(0)),
        ("collective_permute", _alike(0)),
        ("compare", _same),
        ("custom_call", _custom_call),
        ("fft", _fft),
        ("map", _same),
        ("optimization_barrier", _each),
        ("reduce_precision", _alike(0)),
        ("rng", _rng),
        ("select", _same),
        ("set_dimension_size", _resized),
        ("triangular_solve", _solve),
        ("uniform_quantize", _alike(0)),
    )
}
