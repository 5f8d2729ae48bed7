"""Run a StableHLO program through XLA on the CPU: an oracle that shares no code with the engine.

XLA compiles static shapes only. The program's ``main`` is therefore called from a new ``main`` whose argument
types are those of the given arrays; XLA's own shape refinement then makes every inner shape static, evaluates
the ``shape_assertion`` calls, and the result is compiled and run. jaxlib's refinement is not public, so jax
and jaxlib are pinned together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from egshape.errors import CheckFailed, EgshapeError, MissingDependency, ParseError, TypeMismatch, Unsupported
from egshape.hints import install

Run = Callable[[Sequence[np.ndarray[Any, Any]]], list[np.ndarray[Any, Any]]]
"""A compiled program."""

_TOKEN = "!stablehlo.token"
_INNER_MAIN = "egshape_inner_main"
# Dialects that XLA does not take and that a pass of jaxlib turns into StableHLO.
_MHLO_OP = re.compile(r'(?:= |^\s*)"?mhlo\.', re.MULTILINE)
_SHAPE_DIALECTS = re.compile(r"\b(?:shape|tensor|arith)\.[a-z_]+")
# What the refinement says when it cannot know a size; anything else it says is about sizes that clash.
_STAYS_DYNAMIC = re.compile(
    r"dynamic shape|expects static|Cannot parse|unregistered|unknown|must have static|output_operand_alias"
)
_RESIZES = "set_dimension_size"
"""Makes sizes that are bounded and stay dynamic, which XLA compiles."""
_SMALL = 64
_MOST = 64  # so many compiled sizes are kept for an op
_TARGET = re.compile(r"custom_call @\"?([\w.$-]+)|call_target_name = \"([^\"]+)\"")
# What XLA resolves itself, without a function of the name.
_BUILT_IN = frozenset(
    (
        "Sharding",
        "SPMDFullToShardShape",
        "SPMDShardToFullShape",
        "annotate_device_placement",
        "ApproxTopK",
        "PartialReduce",
        "TopK",
        "Qr",
        "Eigh",
        "ProductOfElementaryHouseholderReflectors",
        "stablehlo.dynamic_approx_top_k",
        "stablehlo.dynamic_rng_bit_generator",
    )
)
# numpy does not widen bf16 chains, and neither may the oracle.
_COMPILE_OPTIONS = {
    "xla_allow_excess_precision": "False",
    "xla_detailed_logging": "False",
    "xla_enable_dumping": "False",
}


def run_stablehlo(
    program: str | bytes, inputs: Sequence[np.ndarray[Any, Any]], *, name: str = "<program>"
) -> list[np.ndarray[Any, Any]]:
    """Compile ``program`` for the sizes of ``inputs`` and run it.

    Args:
        program: StableHLO text, or bytecode (MLIR bytecode or a portable artifact), dynamic shapes allowed;
            the public function is ``main``.
        inputs: one array for each argument of ``main``, in order. Dtypes are kept as they are, f64, i64 and
            bf16 too.
        name: what error messages call the program.

    Returns:
        The results of ``main``, in order.

    Raises:
        CheckFailed: a ``shape_assertion`` is false at these sizes; the message is the program's own, filled
            in. With code "sizes": operands whose sizes clash, without an assertion that says so.
        TypeMismatch: wrong number of arrays, or an array whose dtype, rank or static size differs.
        ParseError: the program does not parse or verify.
        Unsupported: shapes or assertions that depend on data (small integer inputs excepted: they are folded
            in), or an op that XLA's CPU back end rejects.
        MissingDependency: jax is not installed.

    XLA's CPU back end flushes subnormal results to zero, whatever its options say.
    XLA evaluates a shape assertion wherever it stands, so one that is false inside an arm which is not taken
    is an error here.
    """
    hlo = _libraries()
    context = hlo.make_ir_context()
    with context, hlo.ir.Location.unknown(context):
        return _executable(hlo, _static_module(hlo, context, program, inputs, name), name)(inputs)


def host_function(payload: bytes) -> Run:
    """The function of a module of one op: compiled by XLA for each set of sizes that it meets.

    Raises Unsupported for a custom_call of a target that XLA does not know here, MissingDependency without jax; what it
    gives raises Unsupported for such a call with an empty matrix."""
    hlo = _libraries()
    program = payload.decode()
    name = "host call"
    hlo.backend.get_backend("cpu")  # targets are known with the back end
    targets = sorted({plain or quoted for plain, quoted in _TARGET.findall(program)} - _BUILT_IN)
    for target in targets:
        if target not in hlo.targets("cpu"):
            raise Unsupported(f"calls {target!r}, which XLA on the CPU does not know", where=f"custom_call @{target}")
    compiled = for_each_sizes(program, name)

    def run(arrays: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        if targets and any(0 in array.shape[-2:] for array in arrays if array.ndim > 1):
            raise Unsupported(
                f"{targets[0]!r} is not called with an empty matrix, since functions of LAPACK divide by "
                "its sizes, which ends the process",
                where=f"custom_call @{targets[0]}",
            )
        return compiled(arrays)

    return run


def for_each_sizes(program: str | bytes, name: str) -> Run:
    """A program that is compiled for each set of sizes that it meets; errors as of ``run_stablehlo``."""
    hlo = _libraries()
    made: dict[tuple[Any, ...], Run] = {}
    folded: dict[tuple[Any, ...], frozenset[int]] = {}
    """Which inputs are constants of what was compiled for these sizes."""

    def key_of(arrays: Sequence[np.ndarray[Any, Any]]) -> tuple[Any, ...]:
        shapes = tuple((array.dtype, array.shape) for array in arrays)
        return shapes, tuple(arrays[place].tobytes() for place in sorted(folded.get(shapes, ())))

    def run(arrays: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        found = made.get(key_of(arrays))
        if found is None:
            if len(made) >= _MOST:
                made.clear()
                folded.clear()
            context = hlo.make_ir_context()
            with context, hlo.ir.Location.unknown(context):
                static = _static_module(hlo, context, program, arrays, name)
                found = _executable(hlo, static, name)
            folded[key_of(arrays)[0]] = static.folded
            made[key_of(arrays)] = found
        return found(arrays)

    return run


def refine_stablehlo(program: str | bytes, inputs: Sequence[np.ndarray[Any, Any]], *, name: str = "<program>") -> str:
    """The text of ``program`` with static shapes, as XLA compiles it for ``inputs``; errors as above."""
    hlo = _libraries()
    context = hlo.make_ir_context()
    with context, hlo.ir.Location.unknown(context):
        return str(_static_module(hlo, context, program, inputs, name).module)


def verify_stablehlo(program: str | bytes, *, name: str = "<program>") -> None:
    """Parse and verify ``program`` with jaxlib's MLIR; raises ParseError with MLIR's own diagnostic."""
    hlo = _libraries()
    context = hlo.make_ir_context()
    with context, hlo.ir.Location.unknown(context):
        _parse(hlo, context, program, name)


def _libraries() -> SimpleNamespace:
    """jax and the private parts of it that are needed, in one place for the day they move."""
    try:
        import jax
        from jax._src import compiler, xla_bridge
        from jax._src.interpreters import mlir
        from jax._src.lax import linalg
        from jax._src.lib import _jax, xla_client
        from jaxlib.mlir import ir, passmanager
        from jaxlib.mlir.dialects import func, stablehlo
    except ImportError as error:
        raise MissingDependency(f"running StableHLO needs jax ({error})", hint=install("stablehlo")) from error
    stablehlo.register_stablehlo_passes()
    linalg.initialize_lapack()
    return SimpleNamespace(
        jax=jax,
        compiler=compiler,
        backend=xla_bridge,
        make_ir_context=mlir.make_ir_context,
        dtype_to_ir_type=mlir.dtype_to_ir_type,
        module_to_bytecode=mlir.module_to_bytecode,
        _jax=_jax,
        targets=xla_client.custom_call_targets,
        ir=ir,
        dense=ir.DenseElementsAttr.get,
        passmanager=passmanager,
        func=func,
        stablehlo=stablehlo,
    )


def _parse(hlo: SimpleNamespace, context: Any, program: str | bytes, name: str) -> Any:
    ir = hlo.ir
    try:
        if isinstance(program, bytes) and b"StableHLO_v" in program[:64]:
            module = hlo._jax.mlir.deserialize_portable_artifact(program, context)
        else:
            module = ir.Module.parse(program)
        module.operation.verify()
        if _MHLO_OP.search(text := str(module)):
            module = ir.Module.parse(hlo._jax.mlir.mhlo_to_stablehlo(hlo.module_to_bytecode(module)))
    except Exception as error:  # MLIRError, ValueError, and jaxlib's own runtime error class
        message, place = _diagnostic(error)
        raise ParseError(message, where=f"{name}:{place}" if place else name) from error
    if _SHAPE_DIALECTS.search(text):
        _run_passes(hlo, module, "builtin.module(func.func(shape-legalize-to-stablehlo),canonicalize)", name)
    return module


def _run_passes(hlo: SimpleNamespace, module: Any, pipeline: str, name: str) -> None:
    try:
        hlo.passmanager.PassManager.parse(pipeline).run(module.operation)
    except (hlo.ir.MLIRError, ValueError, RuntimeError) as error:
        raise Unsupported(f"cannot be lowered to StableHLO: {_diagnostic(error)[0]}", where=name) from error


@dataclass(frozen=True)
class _Static:
    """A module of static shapes. Tokens, which XLA neither takes nor gives, are made inside of it."""

    module: Any
    folded: frozenset[int]
    """Inputs that are constants of it."""
    given: tuple[bool, ...]
    """Of the inputs, whether they are tokens, for which there is no array."""
    found: tuple[bool, ...]
    """The same of the results."""


def _static_module(
    hlo: SimpleNamespace,
    context: Any,
    program: str | bytes,
    inputs: Sequence[np.ndarray[Any, Any]],
    name: str,
) -> _Static:
    """``program`` with static shapes, every assertion evaluated."""
    module = _parse(hlo, context, program, name)
    resizes = _RESIZES in str(module)
    tokens = _specialize(hlo, module, inputs, name, frozenset())
    try:
        refined = _refine(hlo, module, static=not resizes)
    except Exception as error:  # jaxlib raises its own runtime error class here, and ValueError
        first = error
    else:
        if resizes and "?" in str(_function(hlo, refined, "main").type):
            raise Unsupported("a result of bounded size, which jax does not take from XLA", where=name)
        return _Static(refined, frozenset(), *tokens)
    data = frozenset(i for i, a in enumerate(inputs) if a.dtype.kind in "iub" and a.size <= _SMALL)
    if data and _STAYS_DYNAMIC.search(str(first)):
        module = _parse(hlo, context, program, name)
        _specialize(hlo, module, inputs, name, data)
        try:
            return _Static(_refine(hlo, module, static=not resizes), data, *tokens)
        except Exception as error:
            first = error
    raise _refinement_error(hlo, _parse(hlo, context, program, name), inputs, first, name) from first


def _function(hlo: SimpleNamespace, module: Any, wanted: str) -> Any:
    return next(
        (op for op in module.body.operations if isinstance(op, hlo.func.FuncOp) and op.name.value == wanted),
        None,
    )


def _specialize(
    hlo: SimpleNamespace, module: Any, inputs: Sequence[np.ndarray[Any, Any]], name: str, fold: frozenset[int]
) -> tuple[tuple[bool, ...], tuple[bool, ...]]:
    """Rename ``main`` and call it from a new ``main`` that takes arrays of exactly these shapes; which of its arguments
    and results are tokens.

    Arguments in ``fold`` are passed on as constants, so that sizes which depend on their data become known.
    """
    ir, func = hlo.ir, hlo.func
    inner = _function(hlo, module, "main")
    if inner is None:
        raise ParseError("no function is called main", where=name)
    declared, results = list(inner.type.inputs), list(inner.type.results)
    if len(declared) != len(inputs):
        raise TypeMismatch(f"takes {len(declared)} arrays, {len(inputs)} were given", where=name)
    given, found = (tuple(str(type) == _TOKEN for type in side) for side in (declared, results))
    types = [
        _concrete_type(hlo, array, wanted, f"{name}: argument {number}")
        for number, (array, wanted) in enumerate(zip(inputs, declared, strict=True))
        if not given[number]
    ]
    real = [type for type, token in zip(results, found, strict=True) if not token]
    inner.attributes["sym_name"] = ir.StringAttr.get(_INNER_MAIN)
    for op in module.body.operations:  # other public functions would be compiled too, with dynamic shapes
        if isinstance(op, func.FuncOp):
            op.attributes["sym_visibility"] = ir.StringAttr.get("private")
    with ir.InsertionPoint(module.body):
        outer = func.FuncOp("main", (types, real), visibility="public")
    block = outer.add_entry_block()
    arrays = iter(block.arguments)
    with ir.InsertionPoint(block):
        values = [hlo.stablehlo.create_token() if token else next(arrays) for token in given]
        for i in (i for i in fold if not given[i]):
            values[i] = hlo.stablehlo.constant(hlo.dense(inputs[i].copy(order="C")))
        # A convert that changes nothing but the knowledge of the shape: the refinement folds it away.
        arguments = [
            value if value.type == wanted else hlo.stablehlo.convert(wanted, value)
            for value, wanted in zip(values, declared, strict=True)
        ]
        call = func.CallOp(results, _INNER_MAIN, arguments)
        func.ReturnOp([value for value, token in zip(call.results, found, strict=True) if not token])
    return given, found


def _concrete_type(hlo: SimpleNamespace, array: np.ndarray[Any, Any], declared: Any, where: str) -> Any:
    ir = hlo.ir
    try:
        element = hlo.dtype_to_ir_type(array.dtype)
    except TypeError as error:
        raise TypeMismatch(f"dtype {array.dtype} has no StableHLO type", where=where) from error
    given = ir.RankedTensorType.get(array.shape, element)
    fits = isinstance(declared, ir.ShapedType) and declared.element_type == element
    if fits and declared.has_rank:
        ranked = ir.RankedTensorType(declared)
        fits = ranked.rank == array.ndim and all(
            ranked.is_dynamic_dim(axis) or ranked.get_dim_size(axis) == size for axis, size in enumerate(array.shape)
        )
    if not fits:
        raise TypeMismatch(f"wants {declared}, got {given}", where=where)
    return given


def _refine(hlo: SimpleNamespace, module: Any, static: bool = True) -> Any:
    refined = hlo._jax.mlir.refine_polymorphic_shapes(
        mlir_module=hlo.module_to_bytecode(module),
        enable_shape_assertions=True,
        validate_static_shapes=static,
        enable_shardy=False,
    )
    return hlo.ir.Module.parse(refined)


def _refinement_error(
    hlo: SimpleNamespace, module: Any, inputs: Sequence[np.ndarray[Any, Any]], error: Exception, name: str
) -> EgshapeError:
    """What a failed refinement means; ``module`` is the fresh program.

    The refinement meets clashing sizes before it looks at the assertions, so these are tried alone as well.
    """
    templates = _assertion_patterns(hlo, module)
    _keep_assertions_only(hlo, module)
    _specialize(hlo, module, inputs, name, frozenset())
    said = [_diagnostic(error)[0]]
    try:
        _refine(hlo, module)
    except Exception as alone:
        said.insert(0, _diagnostic(alone)[0])
    for message in said:
        if any(pattern.search(message) for pattern in templates):
            return CheckFailed(message, where=name)
    if _STAYS_DYNAMIC.search(str(error)):
        return Unsupported(f"shapes stay dynamic at known input sizes: {said[-1]}", where=name)
    return CheckFailed(said[-1], where=name, code="sizes")


def _assertion_patterns(hlo: SimpleNamespace, module: Any) -> list[re.Pattern[str]]:
    """One pattern for each assertion message of the module, ``{0}`` and the like standing for any number."""
    patterns = []

    def visit(op: Any) -> Any:
        attributes = op.attributes
        if "error_message" in attributes and "call_target_name" in attributes:
            parts = re.split(r"\{\d+\}", hlo.ir.StringAttr(attributes["error_message"]).value)
            first_line = r"-?\d+".join(re.escape(part) for part in parts).split("\\\n")[0]
            patterns.append(re.compile(first_line.rstrip("\\ ")))
        return hlo.ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return patterns


def _keep_assertions_only(hlo: SimpleNamespace, module: Any) -> None:
    """Make ``main`` return nothing, and erase from it what no assertion reads."""
    ir, func = hlo.ir, hlo.func
    main = _function(hlo, module, "main")
    block = main.entry_block
    block.operations[len(block.operations) - 1].erase()
    main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(main.type.inputs, []))
    if "res_attrs" in main.attributes:
        del main.attributes["res_attrs"]
    for op in reversed(list(block.operations)):
        used = any(True for result in op.results for _ in result.uses)
        if not used and "shape_assertion" not in str(op):
            op.erase()
    with ir.InsertionPoint(block):
        func.ReturnOp([])


def _executable(hlo: SimpleNamespace, static: _Static, name: str) -> Run:
    jax = hlo.jax
    client = hlo.backend.get_backend("cpu")
    device = client.local_devices()[0]
    options = hlo.compiler.get_compile_options(1, 1, env_options_overrides=dict(_COMPILE_OPTIONS))

    def refused(error: Exception) -> Unsupported:
        return Unsupported(f"XLA rejects the program: {_diagnostic(error)[0]}", where=name)

    try:
        executable = client.compile_and_load(static.module, hlo._jax.DeviceList((device,)), options)
    except jax.errors.JaxRuntimeError as error:
        raise refused(error) from error

    def run(inputs: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        try:
            with jax.enable_x64(True):  # else device_put narrows 64-bit arrays
                given = zip(inputs, static.given, strict=True)
                arrays = [jax.device_put(array, device) for array, token in given if not token]
            results = iter(executable.execute_sharded(arrays).disassemble_into_single_device_arrays())
            return [np.zeros(0, bool) if token else np.asarray(next(results)[0]) for token in static.found]
        except jax.errors.JaxRuntimeError as error:
            raise refused(error) from error

    return run


def _diagnostic(error: BaseException) -> tuple[str, str]:
    """The message and the ``line:column`` (or "") of a diagnostic, without the module dump behind it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = [line for line in lines if "error:" in line] or lines or [type(error).__name__]
    message = said[0].split("error:", 1)[-1].strip()
    placed = re.match(r'"-":(\d+:\d+): (.*)', message)
    return (placed[2], placed[1]) if placed else (message, "")
