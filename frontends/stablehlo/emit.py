"""StableHLO out: a graph as the text of a module.

Sizes that the graph holds as attributes become shape code here, each distinct value once (``emit_scope``).
Ops are written in static form where their sizes are constants, else in dynamic form with shape operands."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

import numpy as np

from egshape.dims import symbol
from egshape.errors import EgshapeError, Unsupported
from egshape.facts import Facts
from egshape.frontends.stablehlo import sharding
from egshape.frontends.stablehlo.emit_forms import prepared
from egshape.frontends.stablehlo.emit_ops import (
    check_operands,
    constants,
    emitter,
    full_name,
    is_static,
    numbers,
    padding_operand,
    refs,
    types,
)
from egshape.frontends.stablehlo.emit_scope import SCALAR, Frame, Key, Scope, UnknownSource
from egshape.frontends.stablehlo.emit_text import (
    DATA_CHECK,
    FOREIGN,
    boolean,
    dense,
    i64_array,
    location,
    pairs,
    string,
    type_text,
)
from egshape.frontends.stablehlo.parse import context_of, libraries
from egshape.frontends.stablehlo.ranks import STAR, ranked, unranked
from egshape.frontends.stablehlo.single import parts, renamed, with_symbols
from egshape.ir.calls import closed, function_key, unread_sizes
from egshape.ir.graph import Block, Graph, Op, Value
from egshape.ir.types import TensorType
from egshape.ops import REGISTRY

FACTS = "egshape.facts"
"""The module attribute that holds the facts as JSON."""

_ISOLATED = {"reduce", "reduce_window", "select_and_scatter", "sort", "scatter"}
"""Ops whose regions XLA compiles apart: constants stand inside of them."""


def write(graph: Graph, *, verify: bool = True, locations: bool = False) -> str:
    """The StableHLO text of a graph: ``main``, and the other public functions of the model.

    ``verify`` parses it back with jaxlib; ``locations`` adds where each op comes from.
    Raises Unsupported for an op without StableHLO form, EgshapeError if jaxlib rejects the text."""
    text = unranked(_Module(graph, locations).text())
    if verify:
        check(text)
    return text


def statements(graph: Graph) -> int:
    """How many statements a graph is written as, but for constants, whose numbers are not put into the text: that takes
    seconds for weights."""
    lines = _Module(graph, locations=False, data=False).text().splitlines()
    return sum(("stablehlo." in line or "call @" in line) and "stablehlo.constant" not in line for line in lines)


def bytecode(text: str) -> bytes:
    """A module's text as MLIR bytecode. Raises Unsupported for values of unknown rank, which MLIR rejects there."""
    if STAR in text:
        raise Unsupported("MLIR bytecode cannot hold a value of unknown rank", hint="save the model as .mlir")
    hlo = libraries()
    out = io.BytesIO()
    with context_of(hlo) as context:
        hlo.ir.Module.parse(text, context).operation.write_bytecode(out)
    return out.getvalue()


def unheld(graph: Graph) -> tuple[str, ...]:
    """What of a graph a module does not make, as notes."""
    count = sum(op.name == "check" and _for_us_only(graph, op) for op in graph.body.visible())
    if not count:
        return ()
    return (
        f"checks of data, of which there are {count}, are composites that only egshape makes: XLA has no assertion "
        "on data",
    )


def _for_us_only(graph: Graph, op: Op) -> bool:
    return op.attrs["relation"] == "value" and graph.metadata.get("format") == "onnx"


def check(text: str) -> None:
    """Parse and verify a module with jaxlib. Raises EgshapeError with jaxlib's message."""
    hlo = libraries()
    with context_of(hlo) as context:
        try:
            hlo.ir.Module.parse(ranked(text).text if STAR in text else text, context)
        except Exception as error:  # MLIRError and ValueError
            message = str(error).strip().splitlines()
            raise EgshapeError(
                f"jaxlib rejects the StableHLO that egshape wrote: {' '.join(message[:3])}",
                code="internal",
                hint="report this",
            ) from error


class _Module:
    """The functions of one module."""

    def __init__(self, graph: Graph, locations: bool, data: bool = True) -> None:
        self.graph, self.data = graph, data
        self.texts: dict[int, tuple[np.ndarray, str]] = {}
        """Of constants, by their identity: each is written in both runs."""
        self.blocks = [prepared(each.body) for each in (graph, *graph.functions)]
        self.locations = locations
        self.wanted: frozenset[Key] = frozenset()
        self.helpers: dict[str, str] = {}
        self.called: dict[Any, str] = {}
        """Names of functions by their keys."""
        self.moved: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {}
        """New names of the functions that came with ops that are carried through."""
        self.meshes: Mapping[str, str] = graph.metadata.get("meshes", {})
        """Of devices, as text, by the names that shardings have for them."""
        self.names: dict[str, int] = dict.fromkeys(self.meshes, 1)

    def text(self) -> str:
        metadata = self.graph.metadata
        public = self.public()
        held = dict(metadata.get("attributes", {}))
        if self.graph.facts != Facts():
            held[FACTS] = string(self.graph.facts.to_json())
        attributes = f" attributes {{{', '.join(f'{k} = {v}' for k, v in held.items())}}}" if held else ""
        name = _symbol(metadata.get("module_name") or self.graph.name)
        meshes = [f"  {mesh}\n" for mesh in self.meshes.values()]
        functions = "".join((*meshes, public, *self.helpers.values()))
        return f"module @{name}{attributes} {{\n{functions}}}\n"

    def public(self) -> str:
        """The public functions. A first run finds out in which forms sizes are needed."""
        graphs = (self.graph, *self.graph.functions)
        names = ["main", *(_symbol(each.name) for each in self.graph.functions)]
        self.names.update(dict.fromkeys(("main", *(each.name for each in self.graph.functions)), 1))
        taken = dict(self.names)
        wanted = [frozenset[Key]()] * len(graphs)
        while True:
            made = [_Function(self, keys, each.metadata) for keys, each in zip(wanted, graphs, strict=True)]
            for function, name, block in zip(made, names, self.blocks, strict=True):
                function.function(name, block, public=True)
            asked = [frozenset(function.asked) for function in made]
            if any(wanted) or not any(asked):
                return "".join(function.done for function in made)
            wanted = asked
            self.helpers.clear()
            self.called.clear()
            self.moved.clear()
            self.names = dict(taken)

    def dense(self, array: np.ndarray) -> str:
        """The text of a constant."""
        if id(array) not in self.texts:
            self.texts[id(array)] = array, dense(array) if self.data else "dense<>"
        return self.texts[id(array)][1]

    def helper(self, wanted: str, write_body: Callable[[str], str]) -> str:
        """A private function; equal ones are shared. Gives its name."""
        body = write_body("\0")
        if body in self.helpers:
            return self.helpers[body].split("@", 1)[1].split("(", 1)[0]
        name = self.fresh(wanted)
        self.helpers[body] = body.replace("\0", name)
        return name

    def function(self, call: Op) -> str:
        """The name of what an op calls as a private function; "" where it cannot be written as one."""
        key = function_key(call)
        if key not in self.called:
            try:
                made = _Function(self, frozenset(), {}).private(call.regions[0])
                made = _Function(self, frozenset(made.asked), {}).private(call.regions[0])
            except EgshapeError:
                self.called[key] = ""
            else:
                self.called[key] = self.helper(call.attrs["name"], partial(made.done.replace, "\0"))
        return self.called[key]

    def fresh(self, wanted: str) -> str:
        """A name for a function that none has yet."""
        count = self.names.get(wanted, 0)
        self.names[wanted] = count + 1
        return _symbol(wanted if not count else f"{wanted}_{count}")

    def moved_here(self, functions: Mapping[str, str]) -> Mapping[str, str]:
        """Functions of another module, their names as they are written, in this one: what names them, renamed."""
        key = tuple(functions.items())
        if key not in self.moved:
            own = {name: text for name, text in functions.items() if name not in self.meshes}
            names = self.moved[key] = {name: f"@{self.fresh(name)}" for name in own}
            for name, text in own.items():
                self.helpers[f"{names[name]} {text}"] = f"  {with_symbols(text, names)}\n"
        return self.moved[key]


def _symbol(name: str) -> str:
    plain = name.replace("_", "a").replace(".", "a").replace("$", "a")
    return name if plain.isalnum() and plain.isascii() and not name[:1].isdigit() else string(name)


class _Function(Scope):
    """One function: arguments, ops, return."""

    def __init__(self, module: _Module, wanted: frozenset[Key], metadata: Mapping[str, Any]) -> None:
        super().__init__(wanted, module.dense)
        self.module = module
        self.metadata = metadata
        self.done = ""
        self.bounded: dict[Value, str] = {}
        """Results of calls whose types bound their sizes, and these types."""

    def function(self, name: str, block: Block, *, public: bool) -> None:
        self.declare(block)
        arguments = []
        kinds = self.kinds("argument", block.args, public)
        for index, (value, kind) in enumerate(zip(block.args, kinds, strict=True)):
            self.bind(value, f"%arg{index}")
            place = f" loc({string(value.name)})" if public and value.name != f"arg{index}" else ""
            arguments.append(f"%arg{index}: {' '.join(kind)}{place}")
        self.body(block)
        returned = self.kinds("result", block.results, public)
        results = f" -> ({', '.join(' '.join(kind) for kind in returned)})" if returned else ""
        frame = self.frames[0]
        listed = ", ".join(kind[0] for kind in returned)
        values = f" {refs(self, block.results)} : {listed}" if returned else ""
        frame.lines.append(f"{frame.indent}return{values}")
        lines = "\n".join(frame.lines)
        visibility = "public" if public else "private"
        self.done = f"  func.func {visibility} @{name}({', '.join(arguments)}){results} {{\n{lines}\n  }}\n"

    def private(self, block: Block) -> _Function:
        """The function that is called, without a name."""
        self.function("\0", closed(block, TensorType("i32", ())), public=False)
        return self

    def kinds(self, what: str, values: Sequence[Value], public: bool) -> list[tuple[str, ...]]:
        """Of arguments or results the types, each with the attributes that it came with, if any."""
        held = [self.metadata.get(f"{what}_{key}", ()) if public else () for key in ("types", "attributes")]
        rows = zip_longest(values, *(each[: len(values)] for each in held), fillvalue="")
        return [
            (self.bounded.get(value) or _carried_type(text, value), *([extra] if extra not in ("", "{}") else []))
            for value, text, extra in rows
        ]

    def body(self, block: Block) -> None:
        """The ops of a block into the innermost frame."""
        for op in block.ops:
            self.op(op)

    def op(self, op: Op) -> None:
        """Append one op; size code that it needs goes before it."""
        try:
            special = _REGIONS.get(op.name)
            text = special(self, op) if special is not None else emitter(op)(self, op)
        except UnknownSource as error:
            raise EgshapeError(error.message, where=f"{op.name} at {op.location}", code=error.code) from None
        if text is None:
            return
        frame = self.frames[-1]
        trailing = location(op.location) if self.module.locations else ""
        count = len(op.results)
        if not count:
            frame.lines.append(f"{frame.indent}{text}{trailing}")
            return
        name = self.fresh()
        if count == 1:
            frame.lines.append(f"{frame.indent}{name} = {text}{trailing}")
            self.bind(op.results[0], name)
            return
        frame.lines.append(f"{frame.indent}{name}:{count} = {text}{trailing}")
        for index, value in enumerate(op.results):
            self.bind(value, f"{name}#{index}")

    def region(self, block: Block, *, isolated: bool, given: Sequence[TensorType] = ()) -> str:
        """A region in generic form, braces included; ``given``: the types that its results have outside."""
        frame = self.push(isolated=isolated)
        self.declare(block)
        for value in block.args:
            self.bind(value, self.fresh())
        self.body(block)
        for value, type in zip(block.results, given, strict=False):
            types = f"({type_text(value.type)}) -> {type_text(type)}"
            if value.type != type:
                self.names[value] = self.line(frame, f"stablehlo.convert {self.names[value]} : {types}")
        lines = self._closed(frame, block, given)
        self.pop()
        outer = self.frames[-1].indent
        return "{\n" + "\n".join(lines) + f"\n{outer}}}"

    def _closed(self, frame: Frame, block: Block, given: Sequence[TensorType] = ()) -> list[str]:
        head = []
        if block.args:
            arguments = ", ".join(f"{self.names[value]}: {type_text(value.type)}" for value in block.args)
            head = [f"{frame.indent[:-2]}^bb0({arguments}):"]
        stated = ", ".join(map(type_text, given)) if given else types(block.results)
        values = f" {refs(self, block.results)} : {stated}" if block.results else ""
        return [*head, *frame.lines, f"{frame.indent}stablehlo.return{values}"]


# -- ops with regions ----


def _signature(op: Op) -> str:
    results = types(op.results)
    return f"({types(op.operands)}) -> {results if len(op.results) == 1 else f'({results})'}"


def _with_regions(scope: _Function, op: Op, properties: str = "") -> str:
    names = refs(scope, op.operands)
    isolated = op.name in _ISOLATED
    given = tuple(value.type for value in op.results) if _differ(op) else ()
    regions = ", ".join(scope.region(region, isolated=isolated, given=given) for region in op.regions)
    held = f" <{{{properties}}}>" if properties else ""
    return f'"{full_name(op.name)}"({names}){held} ({regions}) : {_signature(op)}'


def _differ(op: Op) -> bool:
    """Whether branches give static sizes that differ: each then gives the type of the op, which leaves them open."""
    if REGISTRY[op.name].traits.regions != "branch":
        return False
    shapes = [[value.type.shape or () for value in region.results] for region in op.regions]
    sizes = (zip(*dims, strict=False) for dims in zip(*shapes, strict=True))
    return any(len({dim.const for dim in axis} - {None}) > 1 for axes in sizes for axis in axes)


def _reduce(scope: _Function, op: Op) -> str:
    return _with_regions(scope, op, f"dimensions = {i64_array(op.attrs['dims'])}")


def _sort(scope: _Function, op: Op) -> str:
    return _with_regions(scope, op, f"dimension = {op.attrs['dim']} : i64, is_stable = {boolean(op.attrs['stable'])}")


def _scatter(scope: _Function, op: Op) -> str:
    attrs = op.attrs
    fields = numbers(
        update_window_dims=tuple(attrs["update_window_dims"]),
        inserted_window_dims=tuple(attrs["inserted_window_dims"]),
        input_batching_dims=tuple(attrs["operand_batch"]),
        scatter_indices_batching_dims=tuple(attrs["indices_batch"]),
        scatter_dims_to_operand_dims=tuple(attrs["scatter_dims_to_operand_dims"]),
        index_vector_dim=attrs["index_vector_dim"],
    )
    return _with_regions(
        scope,
        op,
        (
            f"scatter_dimension_numbers = #stablehlo.scatter<{fields}>, "
            f"indices_are_sorted = {boolean(attrs['sorted'])}, "
            f"unique_indices = {boolean(attrs['unique'])}"
        ),
    )


def _select_and_scatter(scope: _Function, op: Op) -> str:
    attrs = op.attrs
    return _with_regions(
        scope,
        op,
        (
            f"window_dimensions = {i64_array(attrs['window'])}, "
            f"window_strides = {i64_array(attrs['strides'])}, "
            f"padding = {pairs(attrs['padding'])}"
        ),
    )


_WINDOW = (
    ("window", "window_dimensions"),
    ("strides", "window_strides"),
    ("base_dilation", "base_dilations"),
    ("window_dilation", "window_dilations"),
)


def _reduce_window(scope: _Function, op: Op) -> str:
    attrs = op.attrs
    fixed = {key: constants(attrs[key]) for key in ("window", "strides", "base_dilation", "window_dilation", "padding")}
    if all(value is not None for value in fixed.values()):
        text = ", ".join(f"{name} = {i64_array(fixed[key] or [])}" for key, name in _WINDOW)
        return _with_regions(scope, op, f"{text}, padding = {pairs(fixed['padding'] or [])}")
    (body,) = op.regions

    def reducer(name: str) -> str:
        inner = _Function(scope.module, frozenset(), {})
        inner.function(name, body, public=False)
        return inner.done

    called = scope.module.helper("reduce_window_reducer", reducer)
    vectors = [scope.vector(attrs[key]) for key, _ in _WINDOW]
    padding, padding_type = padding_operand(scope, op, len(op.operands))
    rank = len(attrs["window"])
    kinds = ", ".join([types(op.operands), *[f"tensor<{rank}xi32>"] * len(vectors), padding_type])
    results = types(op.results)
    names = ", ".join((refs(scope, op.operands), *vectors, padding))
    return (
        f"stablehlo.custom_call @stablehlo.dynamic_reduce_window({names}) {{api_version = 2 : i32, "
        f"called_computations = [@{called}]}} : ({kinds}) -> "
        f"{results if len(op.results) == 1 else f'({results})'}"
    )


def _composite(scope: _Function, op: Op) -> str | None:
    """A composite with its decomposition as a private function.

    In place where that needs outer values, and where sizes are dynamic and the composite is none of CHLO's:
    jaxlib gives static shapes to the operands of those only, and then rejects the decomposition's types."""
    own = _top_k(scope, op) or sharding.written(op, refs(scope, op.operands), _signature(op))
    if own is not None:
        return own
    (block,) = op.regions
    outside, inside = (*op.operands, *op.results), (*block.args, *block.results)
    known = op.attrs["name"].startswith("chlo.") or all(map(is_static, outside))
    same = all(type_text(one.type) == type_text(two.type) for one, two in zip(outside, inside, strict=True))
    fits = known and same and not block.captures()

    def decomposition(name: str) -> str:
        inner = _Function(scope.module, scope.wanted, {})
        inner.function(name, block, public=False)
        return inner.done

    try:
        called = scope.module.helper(f"{op.attrs['name']}.impl", decomposition) if fits else None
    except EgshapeError:
        called = None
    if called is None:
        _inlined(scope, op, block)
        return None
    held = ", ".join(f"{key} = {text}" for key, text in op.attrs["attrs"])
    attrs = f"composite_attributes = {{{held}}}, " if held else ""
    version = f", version = {op.attrs['version']} : i32" if op.attrs["version"] else ""
    return (
        f"stablehlo.composite {string(op.attrs['name'])} {refs(scope, op.operands)} "
        f"{{{attrs}decomposition = @{called}{version}}} : {_signature(op)}"
    )


def _call(scope: _Function, op: Op) -> str | None:
    """A call of a private function; in line where that cannot be written."""
    (block,) = op.regions
    pairs = zip((*op.operands, *op.results), (*block.args, *block.results), strict=True)
    same = all(type_text(one.type) == type_text(two.type) for one, two in pairs)
    called = scope.module.function(op) if same and not block.captures() else ""
    if not called:
        _inlined(scope, op, block)
        return None
    sizes = [scope.size(symbol(name), "i32", SCALAR) for name in unread_sizes(block)]
    names = ", ".join([*(scope.names[value] for value in op.operands), *sizes])
    kinds = ", ".join([*(type_text(value.type) for value in op.operands), *["tensor<i32>"] * len(sizes)])
    return f"call @{called}({names}) : ({kinds}) -> ({types(op.results)})"


def _check(scope: _Function, op: Op) -> str | None:
    """A check. What an ONNX model checks of its data is a composite of no effect, which says so to us only: XLA
    resolves assertions while it compiles, and refuses a module with one on data."""
    if not _for_us_only(scope.module.graph, op):
        return emitter(op)(scope, op)
    operands, kinds = check_operands(scope, op)
    arguments = ", ".join(f"%arg{place}: {kind}" for place, kind in enumerate(kinds))

    def nothing(name: str) -> str:
        return f"  func.func private @{name}({arguments}) {{\n    return\n  }}\n"

    called = scope.module.helper(f"{DATA_CHECK}.impl", nothing)
    return (
        f"stablehlo.composite {string(DATA_CHECK)} {', '.join(operands)} {{composite_attributes = {{error_message = "
        f"{string(op.attrs['message'])}}}, decomposition = @{called}}} : ({', '.join(kinds)}) -> ()"
    )


def _top_k(scope: _Function, op: Op) -> str | None:
    """CHLO's own op for its composite, and the call of a number that is a size: they need no decomposition."""
    if op.attrs["name"] == "stablehlo.dynamic_top_k":
        k = scope.size(op.results[0].type.dims[-1], "i32", SCALAR)
        kinds = f"({types(op.operands)}, tensor<i32>) -> ({types(op.results)})"
        name = f"custom_call @{op.attrs['name']}"
        return f"stablehlo.{name}({refs(scope, op.operands)}, {k}) {{api_version = 2 : i32}} : {kinds}"
    held = dict(op.attrs["attrs"])
    if op.attrs["name"] != "chlo.top_k" or set(held) != {"k"} or op.attrs["version"] != 1:
        return None
    k = held["k"].split(":")[0].strip()
    return f"chlo.top_k({refs(scope, op.operands)}, k = {k}) : {types(op.operands)} -> ({types(op.results)})"


def _host_call(scope: _Function, op: Op) -> str:
    """An op that was carried through, as it came, on what stands for its operands now."""
    kind, payload = op.attrs["call"]
    if kind != "stablehlo":
        raise Unsupported(f"a host call of {op.attrs['target']} has no StableHLO form", where=str(op.location))
    held = parts(base64.b64decode(payload).decode())
    names = scope.module.moved_here(held.functions)
    values = {f"%arg{place}": scope.names[value] for place, value in enumerate(op.operands)}
    scope.bounded.update((value, text) for value, text in zip(op.results, held.types, strict=True) if _BOUNDS in text)
    middle = renamed(with_symbols(held.middle, names), values, f"inner{scope.fresh()[1:]}_")
    own = op.operands[: len(held.given)]
    exact = held.name == "func.call"
    given = [text if exact else _carried_type(text, value) for text, value in zip(held.given, own, strict=True)]
    found = [text if exact else _carried_type(text, value) for text, value in zip(held.types, op.results, strict=True)]
    listed = found[0] if len(found) == 1 else f"({', '.join(found)})"
    taken = ", ".join(_as_type(scope, value, type) for value, type in zip(own, given, strict=True))
    return f'"{held.name}"({taken}){middle} : ({", ".join(given)}) -> {listed}'


def _as_type(scope: _Function, value: Value, type: str) -> str:
    """The name of a value as one of the type that an op takes, which may know less of its sizes, or bound them."""
    name, ours = scope.names[value], scope.bounded.get(value, type_text(value.type))
    return (
        name
        if ours in (type, FOREIGN)
        else scope.line(scope.frames[-1], f"stablehlo.convert {name} : ({ours}) -> {type}")
    )


_BOUNDS = "#stablehlo.bounds<"


def _carried_type(text: str, value: Value) -> str:
    """The type of a value; that which came with the op where it bounds sizes, or is no tensor of ours."""
    ours = type_text(value.type)
    if _BOUNDS in text:
        return text
    return text if text and ours == FOREIGN and not text.endswith("xi1>") else ours


def _inlined(scope: _Function, op: Op, block: Block) -> None:
    scope.declare(block)
    for inner, outer in zip(block.args, op.operands, strict=True):
        scope.bind(inner, scope.names[outer])
    scope.body(block)
    for result, value in zip(op.results, block.results, strict=True):
        scope.bind(result, scope.names[value])


_REGIONS: dict[str, Callable[[_Function, Op], str | None]] = {
    "reduce": _reduce,
    "sort": _sort,
    "scatter": _scatter,
    "select_and_scatter": _select_and_scatter,
    "reduce_window": _reduce_window,
    "call": _call,
    "composite": _composite,
    "check": _check,
    "host_call": _host_call,
    "host_effect": _host_call,
    "while": _with_regions,
    "if": _with_regions,
    "case": _with_regions,
}
