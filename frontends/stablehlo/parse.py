"""Text and bytes to an MLIR module of the dialects that ``convert`` knows, through jaxlib's bindings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from egshape.errors import EgshapeError, MissingDependency, ParseError, Unsupported
from egshape.frontends.calls import CALL, expectation
from egshape.frontends.stablehlo.flow import as_generic
from egshape.frontends.stablehlo.index import as_arith
from egshape.frontends.stablehlo.ranks import STAR, UNRANKED, ranked
from egshape.hints import install, option
from egshape.ops import REGISTRY

BYTECODE = b"ML\xefR"
"""How MLIR bytecode begins; a portable artifact names its StableHLO version right after."""

_QUOTED = re.compile(r"'([\w.]+)'")
_PLACE = re.compile(r'"?([^"\s:]*)"?:(\d+):(\d+)')


_OPERAND = re.compile(
    r"'func.call' op operand type mismatch: expected operand type '(.*)', but provided '(.*)' for operand number (\d+)"
)


def libraries() -> SimpleNamespace:
    """jaxlib's MLIR bindings and the private parts of jax around them, in one place for the day they move.

    Raises MissingDependency without jax."""
    try:
        from jax._src.interpreters import mlir
        from jax._src.lib import _jax
        from jaxlib.mlir import ir, passmanager
        from jaxlib.mlir.dialects import func, stablehlo
    except ImportError as error:
        raise MissingDependency(f"reading StableHLO needs jax ({error})", hint=install("stablehlo")) from error
    stablehlo.register_stablehlo_passes()
    return SimpleNamespace(
        ir=ir,
        func=func,
        stablehlo=stablehlo,
        passmanager=passmanager,
        make_ir_context=mlir.make_ir_context,
        module_to_bytecode=mlir.module_to_bytecode,
        deserialize=_jax.mlir.deserialize_portable_artifact,
        mhlo_to_stablehlo=_jax.mlir.mhlo_to_stablehlo,
    )


@contextmanager
def context_of(hlo: SimpleNamespace) -> Iterator[Any]:
    """A context of MLIR as jax makes it, for as long as the block, with an unknown location. It starts no threads:
    jax's contexts share a pool of threads, which a forked process has not, and would wait for."""
    with hlo.make_ir_context() as context, hlo.ir.Location.unknown(context):
        context.enable_multithreading(False)
        yield context


@contextmanager
def parsed(
    source: str | bytes, name: str, ranks: Mapping[str, int] | None = None
) -> Iterator[tuple[SimpleNamespace, Any]]:
    """The MLIR bindings and the verified module of ``source``, in a context that lives as long as the block.
    ``ranks``: as of ``convert.read``.

    mhlo, vhlo, quantized types and CHLO ops that have no op of ours are gone. Raises ParseError with file:line:col."""
    hlo = libraries()
    if isinstance(source, bytes | bytearray | memoryview):
        source = _recognised(bytes(source), name)
    with context_of(hlo) as context:
        context.allow_unregistered_dialects = True  # an op that nothing here reads is an error of ours, with its name
        yield hlo, _legalized(hlo, _parse(hlo, context, source, name, ranks), name)


def _recognised(data: bytes, name: str) -> str | bytes:
    """Text, or MLIR bytecode; unwraps what ``jax.export.Exported.serialize`` writes."""
    if data.startswith(BYTECODE):
        return data
    if BYTECODE in data:
        return _exported_bytes(data, name)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise ParseError(
            "is neither StableHLO text nor MLIR bytecode",
            where=name,
            hint="give a .mlir text, MLIR bytecode, or a serialized jax.export",
        )
    return text


def _exported_bytes(data: bytes, name: str) -> bytes:
    from jax import export

    try:
        exported = export.deserialize(bytearray(data))
    except Exception as error:  # the flatbuffer reader raises whatever it stumbles over
        raise ParseError(
            f"is no serialized jax.export: {error}",
            where=name,
            hint="write it with jax.export.export(...)(...).serialize()",
        ) from error
    return bytes(exported.mlir_module_serialized)


def _parse(
    hlo: SimpleNamespace, context: Any, source: str | bytes, name: str, ranks: Mapping[str, int] | None = None
) -> Any:
    if isinstance(source, str):
        source = as_generic(as_arith(source))
        if STAR in source:
            return _parse_unranked(hlo, context, source, name, ranks or {})
    if not source.strip():
        raise ParseError("is empty", where=name, hint="a StableHLO module has a function main")
    quantized = (b"quant" if isinstance(source, bytes) else "quant") in source  # type: ignore[operator]
    try:
        if quantized:  # this pass brings the dialect of quantized types with it, which no binding registers
            _run(hlo, "vhlo-legalize-to-stablehlo", hlo.ir.Module.parse("module {}", context))
        module = hlo.ir.Module.parse(source, context)
        if isinstance(source, bytes) and b"StableHLO_v" in source[:64]:
            # Parsed above already: that raises diagnostics, this only prints them.
            module = hlo.deserialize(source, context)
    except Exception as error:  # MLIRError, ValueError, and jaxlib's own runtime error class
        raise _of_call(diagnosed(error, name), source) from error
    if quantized and "!quant." in str(module):
        _must_run(
            hlo,
            "func.func(stablehlo-legalize-quant-to-math)",
            module,
            "of quantized values has no form in integers",
            "stablehlo.uniform_dequantize its operands, and quantize its results",
            name,
        )
    return module


def _parse_unranked(hlo: SimpleNamespace, context: Any, source: str, name: str, ranks: Mapping[str, int]) -> Any:
    """A text with unranked tensors. Raises Unsupported for the first whose rank nothing tells, if an op needs it."""
    found = ranked(source, ranks)
    try:
        return _parse(hlo, context, found.text, name)
    except ParseError as error:
        if not found.left:
            raise (_misled(error, found.told) if found.told else error) from error.__cause__
        first, *others = found.left
        also = f", nor that of {len(others)} more" if others else ""
        called = found.called.get(first)
        annotated = f", or say it, as {option('--annotate', f'{called}: ?[?, ?]')}" if called else ""
        raise Unsupported(
            f"the rank of {first.text} is not known from its uses{also}: MLIR says at {error.where}, {error.message}",
            where=place_in(source, first.at, name),
            hint=f"write its type with a rank, as tensor<?x?xf32>{annotated}",
        ) from error


def _misled(error: ParseError, told: Mapping[str, int]) -> ParseError:
    said = ", ".join(f"that {value} has rank {rank}" for value, rank in told.items())
    return ParseError(error.message, where=error.where, hint=f"it was said {said}: is it so?")


def place_in(source: str, at: int, name: str) -> str:
    """file:line:col of a place in a text."""
    before = source[:at]
    return f"{name}:{before.count(chr(10)) + 1}:{at - before.rfind(chr(10))}"


def _must_run(hlo: SimpleNamespace, passes: str, module: Any, refusal: str, hint: str, name: str) -> None:
    """Run passes on a module. Raises Unsupported, with the op of which ``refusal`` is true and its place."""
    try:
        _run(hlo, passes, module)
    except Exception as error:  # jaxlib raises its own classes
        said = diagnosed(error, name)
        op = _QUOTED.search(said.message)
        what = op[1] if op else f"an op ({said.message})"
        raise Unsupported(f"{what} {refusal}", where=said.where, hint=hint) from error


def _run(hlo: SimpleNamespace, passes: str, module: Any) -> None:
    hlo.passmanager.PassManager.parse(f"builtin.module({passes})").run(module.operation)


def diagnosed(error: BaseException, name: str) -> EgshapeError:
    """A ParseError with the first diagnostic of MLIR and its place."""
    found = getattr(error, "error_diagnostics", None)
    if found:
        message, place = found[0].message, _PLACE.search(str(found[0].location))
    else:
        lines = [line for line in str(error).splitlines() if line.strip()]
        message, place = lines[-1] if lines else type(error).__name__, _PLACE.search(str(error))
    hint = ""
    if "unregistered dialect" in message or "not found for custom op" in message:
        named = re.search(r"custom op '([^']+)'", message)
        message = f"{named[1] if named else 'an op'} is of a dialect that is not known here"
        hint = "known are stablehlo, chlo, mhlo, func, shape, tensor, arith, index"
    where = _placed(place[0], name) if place else name
    return ParseError(message.removeprefix("error: "), where=where, hint=hint or "MLIR rejects the module")


def _of_call(error: EgshapeError, source: str | bytes) -> EgshapeError:
    """What MLIR says of the operand of a call, in the terms of the caller, with the places of both in a text."""
    found, place = _OPERAND.match(error.message), _PLACE.search(error.where)
    if found is None or place is None or not isinstance(source, str):
        return error
    called = re.search(r'@([\w$.-]+|"[^"]*")', source.splitlines()[int(place[2]) - 1])
    if called is None:
        return error
    said = expectation(called[0], int(found[3]), *(_type(found[each]) for each in (1, 2)))
    defined = re.search(rf"func\.func[^@\n]*{re.escape(called[0])}(?![\w$.-])", source)
    line = 0 if defined is None else source.count("\n", 0, defined.start()) + 1
    hint = f"{place[1]}:{line} defines it" if line else error.hint
    return ParseError(said, where=error.where, hint=hint, code=CALL)


def _type(text: str) -> str:
    """``tensor<3x?xf32>`` as types are written here."""
    tensor = re.fullmatch(r"tensor<((?:[\d?]+x)*)([^x<>]+)>", text)
    return text if tensor is None else f"{tensor[2]}[{', '.join(tensor[1].split('x')[:-1])}]"


def _placed(location: str, name: str) -> str:
    """file:line:col of a location, just the name of the model where it has none."""
    place = _PLACE.search(location)
    if place is None or not int(place[2]):
        return name
    return f"{place[1] if place[1] not in ('', '-') else name}:{place[2]}:{place[3]}"


def _legalized(hlo: SimpleNamespace, module: Any, name: str) -> Any:
    """The module without mhlo and without CHLO ops that have no op of ours."""
    names = _op_names(hlo, module)
    if mhlo := {each for each in names if each.startswith("mhlo.")}:
        _need_ranks(names, mhlo, name)
        try:
            module = hlo.ir.Module.parse(hlo.mhlo_to_stablehlo(hlo.module_to_bytecode(module)))
        except Exception as error:
            raise Unsupported(
                f"holds mhlo ops that have no StableHLO form: {_first_line(error)}", where=name
            ) from error
        names = _op_names(hlo, module)
    known = {"chlo.top_k", *(f"chlo.{each}" for each in REGISTRY.by_frontend("chlo"))}
    if chlo := {each for each in names if each.startswith("chlo.") and each not in known}:
        _need_ranks(names, chlo, name)
        _must_run(
            hlo,
            "func.func(chlo-legalize-to-stablehlo)",
            module,
            "has no form in StableHLO",
            "give its operands the types that it asks for",
            name,
        )
    return module


def _need_ranks(names: Mapping[str, str], changed: Iterable[str], name: str) -> None:
    """Raise Unsupported for an op of unranked values that a pass changes: it takes what stands for them for vectors."""
    for each in changed:
        if names[each]:
            raise Unsupported(
                f"{each} has a value whose rank is not known from its uses",
                where=_placed(names[each], name),
                hint="write its type with a rank, as tensor<?x?xf32>",
            )


def _op_names(hlo: SimpleNamespace, module: Any) -> dict[str, str]:
    """The names of all ops, and of each the location of one that has a value of unknown rank, "" if none has."""
    names: dict[str, str] = {}
    advance = hlo.ir.WalkResult.ADVANCE
    unranked = UNRANKED in str(module)

    def note(op: Any) -> Any:
        found = names.setdefault(op.name, "")
        if unranked and not found:
            types = [str(value.type) for values in (op.operands, op.results) for value in values]
            names[op.name] = str(op.location) if any(UNRANKED in type for type in types) else ""
        return advance

    module.operation.walk(note)
    return names


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
