"""A module becomes a graph: inputs and their symbols, the body with the functions that are called once or are short in
line, and the facts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from egshape.dims import Dim, const, symbol
from egshape.errors import EgshapeError, MissingDependency
from egshape.facts import Facts, Relation, SymbolFacts
from egshape.frontends.calls import earliest
from egshape.frontends.stablehlo import arith, control, handlers, host, shapecode
from egshape.frontends.stablehlo.parse import parsed
from egshape.frontends.stablehlo.scope import TOKEN, Handler, Program, Scope, checked, plain_ops
from egshape.frontends.stablehlo.tree import Function, Module
from egshape.ir.builder import BlockBuilder
from egshape.ir.calls import shared
from egshape.ir.graph import Graph, SymbolDef, Value
from egshape.ops.base import OpDecl, object_array
from egshape.ops.shape_function import assuming

if TYPE_CHECKING:
    from jax.export import Exported

HANDLERS: Mapping[str, Handler] = {
    **handlers.HANDLERS,
    **control.HANDLERS,
    **shapecode.HANDLERS,
    **arith.HANDLERS,
}

_BY_PARTS: Mapping[str, Callable[[Any], bool]] = {
    "stablehlo.custom_call": control.known_target,
    "stablehlo.reduce_precision": handlers.keeps_precision,
}
"""Whether ops of these names are read by their parts; else they are carried through."""

FACTS = "egshape.facts"
"""The module attribute that holds the facts as JSON."""

_NAMED = "jax.global_constant"
_KEEPS_SIZE = ("stablehlo.convert", "stablehlo.reshape")


def read(
    source: str | bytes, name: str, ranks: Mapping[str, int] | None = None, arguments: Sequence[str] = ()
) -> Graph:
    """The graph of a StableHLO module.

    Args:
        source: text, MLIR bytecode, a portable artifact, or what ``jax.export.Exported.serialize`` gives.
        name: what messages and locations call it, a file name as a rule.
        ranks: of values for which the text says no rank and their uses tell none, by name: ``x``, ``%y``.
        arguments: names of the inputs, where the module says none.

    Raises:
        ParseError: the source does not parse or verify; ``where`` is file:line:col.
        Unsupported: an op, type or structure that egshape does not know; ``where`` is its location.
        MissingDependency: jax is not installed.
    """
    plain = plain_ops()

    def known(op: Any) -> bool:
        decides = _BY_PARTS.get(op.name)
        if decides is not None:
            return decides(op)
        return op.name in HANDLERS or op.name in plain or not op.name.startswith(host.DIALECTS)

    with parsed(source, name, ranks) as (hlo, module):
        return _graph(Module(hlo, module, name, known, source), name, plain, arguments)


def from_exported(exported: Exported, arguments: Sequence[str] = ()) -> Graph:
    """The graph of what ``jax.export.export`` gives. ``arguments``: names of all that the function takes, in order.
    Errors as of ``read``."""
    try:
        serialized = bytes(exported.mlir_module_serialized)
    except AttributeError:
        raise MissingDependency("needs a jax.export.Exported", hint="give jax.export.export(jax.jit(f))(...)") from None
    kept = [arguments[place] for place in exported.module_kept_var_idx] if arguments else ()
    return read(serialized, exported.fun_name, arguments=kept)


def _graph(module: Module, name: str, plain: Mapping[str, OpDecl], arguments: Sequence[str]) -> Graph:
    main = _called(module.entry(), arguments)
    held = _held_facts(module)
    with assuming(held):
        graph = _of_function(module, main, module.name or PurePath(name).stem, plain, held)
    functions, left_out = [], []
    for each in module.others(main):
        try:
            functions.append(_of_function(module, module.function(each), each, plain, Facts()))
        except EgshapeError as error:
            left_out.append((each, str(error)))
    return replace(
        graph,
        functions=tuple(functions),
        metadata={**graph.metadata, "left_out": tuple(left_out)} if left_out else graph.metadata,
    )


def _of_function(module: Module, main: Function, name: str, plain: Mapping[str, OpDecl], held: Facts) -> Graph:
    program = Program(module, HANDLERS, plain, host.carried, shared=module.shared(main.name))
    builder = BlockBuilder(decide=program.bounds.decide)
    inputs = _inputs(main, builder, _size_names(module, main, held), program.foreign)
    _check_bounds(builder, main, inputs)
    scope = Scope(program, builder, dict(zip(main.body.args, inputs, strict=True)), (main.name,))
    try:
        results = scope.tensors(main.body, main.location, tokens=True)
    except EgshapeError as error:
        raise earliest(error, builder) from None
    return Graph(
        name,
        shared(builder.finish(results)),
        tuple(f"out{index}" for index in range(len(results))),
        _facts(held, main, inputs),
        _metadata(module, main, program, inputs, results),
    )


def _called(main: Function, arguments: Sequence[str]) -> Function:
    """The function whose last arguments have these names; before them JAX hands in sizes."""
    places = list(main.body.locations)
    first = len(places) - len(arguments)
    places[first:] = [replace(place, name=name) for place, name in zip(places[first:], arguments, strict=True)]
    return replace(main, body=replace(main.body, locations=tuple(places)))


# -- inputs ------------------------------------------------------------------------------------------


def _input_names(main: Function) -> list[str]:
    """The names in the locations of the arguments, arg0, arg1, ... where there is none or one is taken."""
    used: set[str] = set()
    out = []
    for index, location in enumerate(main.body.locations):
        name = location.name if location.name and location.name not in used else f"arg{index}"
        while name in used:
            name += "_"
        used.add(name)
        out.append(name)
    return out


def _inputs(
    main: Function, builder: BlockBuilder, names: Mapping[tuple[int, int], str], foreign: dict[Value, str]
) -> list[Value]:
    """The arguments; those that are tokens go to ``foreign``."""
    out = []
    for index, (name, info) in enumerate(zip(_input_names(main), main.body.types, strict=True)):
        if info.text == TOKEN:
            foreign[value := builder.arg(name, *host.FOREIGN)] = TOKEN
            out.append(value)
            continue
        where = main.body.locations[index] if str(main.body.locations[index]) else main.location
        checked(info, where, f"argument {name}")
        axes = None if info.shape is None else [names.get((index, axis)) for axis in range(len(info.shape))]
        value = builder.arg(name, info.dtype, info.shape, axes)
        label = main.arg_attributes[index].get(_NAMED)
        if label and info.shape == () and not any(known.name == label for known in builder.symbols):
            # main itself takes the sizes: the argument's value is the size.
            builder.symbols.append(SymbolDef(label, value, element=0))
            builder.set_elements(value, object_array([symbol(label)], ()))
        out.append(value)
    return out


def _bounded(main: Function, inputs: Sequence[Value]) -> Iterator[tuple[Value, int, Dim, int]]:
    """Input axes whose type bounds a size: the input, the axis, its size and the bound."""
    for value, info in zip(inputs, main.body.types, strict=True):
        for axis, (size, bound) in enumerate(zip(value.type.shape or (), info.bounds or (), strict=False)):
            if bound is not None and size.const is None:
                yield value, axis, size, bound


def _exceeds(value: Value, axis: int, bound: int) -> str:
    return f"axis {axis} of {value.name} is larger than its type allows, {bound}"


def _check_bounds(builder: BlockBuilder, main: Function, inputs: Sequence[Value]) -> None:
    """The bounds of input types as checks."""
    for value, axis, size, bound in _bounded(main, inputs):
        message = f"{_exceeds(value, axis, bound)}: {size} is {{0}}"
        attrs = {"relation": "<=", "sides": (size, const(bound)), "message": message, "args": (size,)}
        builder.add("check", (), attrs, location=main.location)


def _size_names(module: Module, main: Function, held: Facts) -> dict[tuple[int, int], str]:
    """Names of input axes: of the ``jax.global_constant`` arguments that main binds to their sizes, else as
    the module's own facts know them."""
    index_of = {key: index for index, key in enumerate(main.body.args)}
    sizes: dict[int, tuple[int, int]] = {}
    names: dict[tuple[int, int], str] = {}
    used = {given[_NAMED] for given in main.arg_attributes if given.get(_NAMED)}
    for node in main.body.nodes:
        if node.name == "stablehlo.get_dimension_size" and node.operands[0] in index_of:
            sizes[node.results[0]] = index_of[node.operands[0]], node.attributes["dimension"]
        elif node.name in _KEEPS_SIZE and node.operands[0] in sizes:
            sizes[node.results[0]] = sizes[node.operands[0]]
        elif node.name == "func.call" and node.attributes["callee"] in module:
            given = module.function(node.attributes["callee"]).arg_attributes
            for key, attributes in zip(node.operands, given, strict=True):
                name = attributes.get(_NAMED)
                if name and name not in used and key in sizes and sizes[key] not in names:
                    names[sizes[key]] = name
                    used.add(name)
    axes = {
        f"{name}.{axis}": (index, axis)
        for index, name in enumerate(_input_names(main))
        for axis in range(len(main.body.types[index].shape or ()))
    }
    for known in held.symbols:
        place = axes.get(known.sources[0]) if known.sources else None
        if place is not None and known.name not in used and known.name not in axes:
            names.setdefault(place, known.name)
            used.add(known.name)
    return names


# -- facts and metadata ------------------------------------------------------------------------------


def _held_facts(module: Module) -> Facts:
    """The facts that the module carries in an attribute. Raises EgshapeError if they do not parse."""
    held = module.attributes.get(FACTS)
    if held is None:
        return Facts()
    text = module.reader.attribute(held)
    if not isinstance(text, str):
        raise EgshapeError(f"the module attribute {FACTS} is no text", where=module.source)
    try:
        return Facts.from_json(text)
    except EgshapeError as error:
        message = f"the module attribute {FACTS}: {error.message}"
        raise EgshapeError(message, where=module.source, hint=error.hint, code=error.code) from error


def _facts(held: Facts, main: Function, inputs: list[Value]) -> Facts:
    """The module's facts, the bounds of the input types, and which axis each symbol is."""
    sources: list[SymbolFacts] = []
    for value in inputs:
        for axis, size in enumerate(value.type.shape or ()):
            if size.const is None:
                (name,) = size.symbols()
                sources.append(SymbolFacts(name, (f"{value.name}.{axis}",)))
    bounds = [
        Relation("in", size, const(0), ranges=((0, bound),), message=_exceeds(value, axis, bound))
        for value, axis, size, bound in _bounded(main, inputs)
    ]
    return held.merge(Facts().with_symbols(sources).with_relations(bounds))


_OURS = frozenset(("sym_name", FACTS, "shape.lib"))
"""Attributes of a module that are written anew, or that speak of what is passed over."""


def _metadata(
    module: Module, main: Function, program: Program, inputs: Sequence[Value], results: Sequence[Value]
) -> dict[str, Any]:
    """What a writer needs to give the module the same head, and the assertions that hold by form."""
    return {
        "format": "stablehlo",
        "module_name": module.name,
        "function_name": main.name,
        **({"meshes": {name: str(mesh) for name, mesh in module.meshes.items()}} if module.meshes else {}),
        "attributes": {key: str(attr) for key, attr in module.attributes.items() if key not in _OURS},
        **{
            key: tuple(program.foreign.get(value, "") for value in values)
            for key, values in (("argument_types", inputs), ("result_types", results))
            if any(value in program.foreign for value in values)
        },
        "argument_attributes": main.arg_texts,
        "result_attributes": main.result_texts,
        "assertions": tuple(program.proved),
    }
