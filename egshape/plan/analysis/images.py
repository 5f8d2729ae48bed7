"""Whether a graph does the same to each entry of its first axis (image by image): then it may be run on some images
after the others, which keeps what is between two layers in the cache (runtime/native/images.c)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from egshape.decide.context import Context
from egshape.decide.reason import Check
from egshape.dims import Dim, const, symbol
from egshape.facts import Relation
from egshape.ir.graph import Block, Graph, Op, Value
from egshape.plan.analysis.elements import is_elementwise
from egshape.plan.ir.program import CheckSizes, Copy, Program, Run


def images(graph: Graph) -> str:
    """The symbol that is the size of the first axis of each output, if each entry of the outputs is the same function
    of the entries of the inputs at that place, whatever the symbol is, and if there is a convolution; else "".

    Soundness: no other size or attribute of the graph reads the symbol, no check does that one image could fail, and
    each op that reads a value with the axis is one of those below, which keep it first and never mix its entries."""
    found = next((op for op in graph.body.walk() if op.name == "convolution"), None)
    name = "" if found is None else _symbol(found.operands[0].type.dims[:1])
    if not name or not _maps(graph.body, name):
        return ""
    return name if all(_led(value, name) for value in graph.body.results) else ""


def runs_in_parts(program: Program, name: str) -> bool:
    """Whether a program of such a graph does nothing but run kernels, reads the symbol from first axes only, and checks
    of it only what holds for each part."""
    led = {_symbol(port.shape[:1]) for port in program.inputs}
    _, *form = program.symbols.get(name, (0, 1, 1, 0))
    others = {each for each, (_, axis, _, _) in program.symbols.items() if not axis}
    if name not in led or form != [0, 1, 0] or not others <= led:
        return False
    if any(port.over is not None for port in program.outputs):
        return False
    for step in program.steps:
        if not isinstance(step, Run | Copy | CheckSizes):
            return False
        if isinstance(step, CheckSizes) and not _holds(Relation(step.relation, step.lhs, step.rhs), name):
            return False
        if isinstance(step, Run) and step.launch is not None:
            return False
    return True


def _symbol(sizes: tuple[Dim, ...]) -> str:
    """The symbol that the first size is; "" if it is none."""
    return next((each for each in sizes[0].symbols() if sizes[0] is symbol(each)), "") if sizes else ""


def _led(value: Value, name: str) -> bool:
    """Whether the first axis has that size, and no other one reads it."""
    shape = value.type.shape or ()
    return _symbol(shape[:1]) == name and not _reads(shape[1:], name)


def _reads(attr: Any, name: str) -> bool:
    """Whether an attribute reads a symbol."""
    if isinstance(attr, Dim):
        return name in attr.symbols()
    return isinstance(attr, tuple) and any(_reads(each, name) for each in attr)


def _holds(relation: Relation, name: str) -> bool:
    """Whether a relation of sizes does not hang on the symbol, as long as that is at least 1."""
    if name not in relation.lhs.symbols() | relation.rhs.symbols():
        return True
    context = Context()
    context.assume_all([(Relation("<=", const(1), symbol(name)), Check())])
    return context.decide(relation) == "proved"


def _values(block: Block) -> Iterator[Value]:
    yield from block.args
    for op in block.ops:
        yield from op.results


def _maps(block: Block, name: str) -> bool:
    for value in _values(block):
        if value.type.shape is None or (_reads(value.type.dims, name) and not _led(value, name)):
            return False
    return all(_op_maps(op, name) for op in block.ops)


def _op_maps(op: Op, name: str) -> bool:
    if not all(_holds(each, name) for each in op.requires) or op.captures():
        return False
    if op.name == "check":
        return not op.operands and _holds(Relation(op.attrs["relation"], *op.attrs["sides"]), name)
    inner = [each for region in op.regions for each in region.walk()]
    if any(not is_elementwise(each) or each.requires for each in inner):
        return False
    led = [_led(value, name) for value in op.operands]
    made = [_led(value, name) for value in op.results]
    if not any(led) and not any(made):
        dear = op.name in _DEAR and any(value.type.rank for value in op.operands)
        return not dear and not any(_reads(attr, name) for attr in op.attrs.values())
    attrs = {key: attr[1:] if key in _SIZES and isinstance(attr, tuple) else attr for key, attr in op.attrs.items()}
    if not all(made) or any(_reads(attr, name) for attr in attrs.values()):
        return False
    if is_elementwise(op):
        return all(here or not value.type.rank for here, value in zip(led, op.operands, strict=True)) and not op.regions
    rule = _RULES.get(op.name)
    return rule is not None and rule(op.attrs, led, op)


_DEAR = frozenset(
    ("convolution", "dot_general", "reduce", "reduce_window", "scatter", "select_and_scatter", "sort", "while")
)
"""Ops that each part would compute again where no images are in them."""
_SIZES = ("shape", "limits", "sizes")
"""Attributes of sizes of axes; the first is that of the first axis."""


def _broadcast(attrs: Mapping[str, Any], led: list[bool], op: Op) -> bool:
    """A value with the axis keeps it first; of another one no axis becomes it, or one of size 1."""
    dims, sizes = attrs["dims"], op.operands[0].type.dims
    if led[0]:
        return bool(dims[0] == 0)
    return all(size.const == 1 for dim, size in zip(dims, sizes, strict=True) if dim == 0)


def _convolution(attrs: Mapping[str, Any], led: list[bool], op: Op) -> bool:
    numbers = attrs["numbers"]
    return bool(led == [True, False] and attrs["batch_groups"] == 1 and numbers[0] == 0 and numbers[6] == 0)


def _window(attrs: Mapping[str, Any], led: list[bool], op: Op) -> bool:
    plain = (_is(1, attrs[key][0]) for key in ("window", "strides", "base_dilation", "window_dilation"))
    return all(plain) and _is(0, *attrs["padding"][:2]) and _reduced(led)


def _is(number: int, *sizes: Any) -> bool:
    """Whether each size, or integer, is that number."""
    return all((size.const if isinstance(size, Dim) else size) == number for size in sizes)


def _reduced(led: list[bool]) -> bool:
    """Whether what is reduced has the axis, and the values that reductions begin with do not."""
    half = len(led) // 2
    return all(led[:half]) and not any(led[half:])


def _dots(attrs: Mapping[str, Any], led: list[bool], op: Op) -> bool:
    """The axis is free in the left operand, or the first of the batch in both."""
    left, right = attrs["lhs_batch"], attrs["rhs_batch"]
    if led == [True, False]:
        return not left and 0 not in attrs["lhs_contract"]
    return led == [True, True] and left[:1] == (0,) and right[:1] == (0,)


def _gather(attrs: Mapping[str, Any], led: list[bool], op: Op) -> bool:
    """Whole entries along the axis, at places that are the same for each."""
    taken = (*attrs["collapsed"], *attrs["operand_batch"], *attrs["start_index_map"])
    whole = attrs["sizes"][0] is op.operands[0].type.dims[0]
    return led == [True, False] and 0 not in taken and attrs["offset_dims"][:1] == (0,) and whole


_RULES: Mapping[str, Callable[[Mapping[str, Any], list[bool], Op], bool]] = {
    "broadcast_in_dim": _broadcast,
    "concatenate": lambda attrs, led, op: all(led) and attrs["dim"] != 0,
    "convolution": _convolution,
    "dot_general": _dots,
    "gather": _gather,
    "iota": lambda attrs, led, op: attrs["dim"] != 0,
    "pad": lambda attrs, led, op: (
        led == [True, False] and _is(0, *(attrs[key][0] for key in ("low", "high", "interior")))
    ),
    "reduce": lambda attrs, led, op: 0 not in attrs["dims"] and _reduced(led),
    "reduce_window": _window,
    "reshape": lambda attrs, led, op: led == [True],
    "reverse": lambda attrs, led, op: 0 not in attrs["dims"],
    "slice": lambda attrs, led, op: (
        _is(0, attrs["starts"][0]) and _is(1, attrs["strides"][0]) and attrs["limits"][0] is op.operands[0].type.dims[0]
    ),
    "transpose": lambda attrs, led, op: attrs["permutation"][0] == 0,
}
