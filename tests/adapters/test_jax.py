"""Compiled functions inside of jax.jit, called by XLA itself and through Python."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("llvmlite")

import egshape
from egshape.adapters import jax_handler
from egshape.dims import symbol
from egshape.errors import EgshapeError
from egshape.ir.builder import BlockBuilder
from egshape.ir.text import parse_graph
from egshape.ir.types import numpy_dtype
from egshape.ops import host
from egshape.runtime import RunError
from tests.fuzz.differential import argument, graph_of
from tests.runtime.test_calls import arrays, graph, holds

ROADS = [("llvm", "ffi"), ("llvm", "callback"), ("interpret", None)]


@pytest.fixture(params=ROADS, ids=lambda road: "-".join(filter(None, road)))
def on_jax(request: pytest.FixtureRequest) -> Callable[..., Any]:
    target, through = request.param
    return egshape.jax_call(egshape.compile(graph(), target), through)


def compiled(text: str, target: str = "llvm") -> Any:
    return egshape.compile(parse_graph(text), target)


def test_sizes_of_all_kinds(on_jax: Callable[..., Any]) -> None:
    inside = jax.jit(lambda x, y, w: on_jax(x + 0, y, 1 * w))
    for rows in (0, 1, 2, 64, 3, 0):
        for each in (on_jax, inside):
            found = each(*arrays(rows))
            assert all(isinstance(part, jax.Array) and part.dtype == jnp.float32 for part in found)
            holds(found, *arrays(rows))


def test_names_and_what_is_around_it(on_jax: Callable[..., Any]) -> None:
    x, y, w = arrays(6)
    holds(on_jax(x, **{"a/b:0": y, "out": w}), x, y, w)
    holds(on_jax({"x": x, "a/b:0": jnp.asarray(y), "out": w}), x, y, w)

    @jax.jit
    def program(x: Any, y: Any, w: Any) -> Any:
        def step(k: Any, kept: Any) -> Any:
            return jax.lax.cond(k % 2 == 0, lambda a: on_jax(a, y, w)[1], lambda a: a, kept)

        return jax.lax.fori_loop(0, 4, step, x * 2) + on_jax(x, y, w)[0]

    np.testing.assert_allclose(program(x, y, w), x * 2 - 2 * y + (x - y) * w, rtol=1e-5, atol=1e-6)


def test_one_example_after_the_other(on_jax: Callable[..., Any]) -> None:
    x, y, w = arrays(3)
    for many in (jax.vmap(on_jax, (0, 0, None)), jax.jit(jax.vmap(on_jax, (0, 0, None)))):
        found = many(np.stack([x, y, x]), np.stack([y, x, x]), w)
        for place, (one, other) in enumerate(((x, y), (y, x), (x, x))):
            holds([part[place] for part in found], one, other, w)


def test_what_is_refused_while_jax_traces(on_jax: Callable[..., Any]) -> None:
    x, y, w = arrays(3)
    for given, message in (
        ((x, y), "the input 'out' is missing"),
        ((x[:2], y, w), "has size 3, its type.* wants n = 2"),
        ((x, y[0], w), "'a/b:0' wants rank 2, got an array of rank 1"),
        ((x, y, w[:3]), "axis 0 of input 'out' has size 3, its type.* wants 4"),
        ((x.astype(np.float64), y, w), "'x' wants elements of float32, got float64"),
        ((x, y, w.astype(np.int32)), "'out' wants elements of float32, got int32"),
    ):
        for call in (on_jax, jax.jit(on_jax)):
            if given[0].dtype == np.float64 and call is not on_jax:
                continue  # jit itself makes it f32
            with pytest.raises((EgshapeError, RunError), match=message):
                call(*given)


def test_a_check_that_fails(on_jax: Callable[..., Any]) -> None:
    for call in (on_jax, jax.jit(on_jax)):
        with pytest.raises(Exception, match="65 rows are too many"):
            jax.block_until_ready(call(*arrays(65)))
    holds(on_jax(*arrays(4)), *arrays(4))


def test_there_is_no_derivative(on_jax: Callable[..., Any]) -> None:
    x, y, w = arrays(2)
    for made in (jax.grad, lambda f: jax.jit(jax.grad(f)), jax.jacfwd):
        with pytest.raises(EgshapeError, match=r"has no derivative .*stop_gradient"):
            made(lambda x: on_jax(x, y, w)[0].sum())(x)
        kept = made(lambda x: x.sum() + on_jax(jax.lax.stop_gradient(x), y, w)[0].sum())(x)
        np.testing.assert_array_equal(kept, np.ones((2, 4)))


@pytest.mark.parametrize("dtype", ["i1", "i8", "ui8", "i16", "i32", "ui32", "f16", "bf16", "f8E4M3FN", "f32", "i4"])
@pytest.mark.parametrize("target", ["llvm", "interpret"])
def test_elements_of_all_kinds(dtype: str, target: str) -> None:
    function = compiled(
        f"graph f(%x: {dtype}[n, m]) {{\n  symbols n = size(%x, 0), m = size(%x, 1)\n"
        f"  %t: {dtype}[m, n] = transpose(%x) {{permutation=[1, 0]}}\n"
        "  return %t as y, %x as z\n}",
        target,
    )
    x = np.arange(6).reshape(2, 3).astype(numpy_dtype(dtype))
    turned, same = jax.jit(egshape.jax_call(function))(jnp.asarray(x))
    assert turned.dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(turned), x.T)
    np.testing.assert_array_equal(np.asarray(same), x)


def test_wide_elements_need_x64() -> None:
    function = compiled(
        "graph f(%x: f64[n]) {\n  symbols n = size(%x, 0)\n  %y: f64[n] = negate(%x)\n  return %y as y\n}"
    )
    narrow = compiled(
        "graph f(%x: f32[n]) {\n  symbols n = size(%x, 0)\n  %y: f64[n] = convert(%x) {dtype=f64}\n  return %y as y\n}"
    )
    x = np.linspace(0, 1, 5)
    with pytest.raises(EgshapeError, match=r"'x' wants elements of float64, got float64 .*jax_enable_x64"):
        egshape.jax_call(function)(x)
    with pytest.raises(EgshapeError, match=r"'y' has elements of float64, which JAX cuts short .*jax_enable_x64"):
        egshape.jax_call(narrow)(x.astype(np.float32))
    with jax.enable_x64(True):
        np.testing.assert_array_equal(jax.jit(egshape.jax_call(function))(x), -x)


def test_scalars_and_no_inputs() -> None:
    total = compiled(
        "graph f(%x: f32[n], %k: f32[]) {\n  symbols n = size(%x, 0)\n"
        "  %s: f32[] = multiply(%k, %k)\n  return %s as y\n}"
    )
    assert float(jax.jit(egshape.jax_call(total))(np.ones(3, np.float32), 3.0)) == 9
    none = compiled("graph f() {\n  %c: f32[2] = constant() {value=f32[2]{1.0, 2.0}}\n  return %c as y\n}")
    assert jax.jit(egshape.jax_call(none))().tolist() == [1, 2]


def test_results_whose_shape_depends_on_data_are_refused() -> None:
    for target in ("llvm", "interpret"):
        text = (
            "graph f(%n: i32[]) {\n  symbols n = element(%n, 0)\n"
            "  %y: f32[n] = iota() {shape=<n>, dim=0, dtype=f32}\n  return %y as y\n}"
        )
        function = compiled(text, target)
        with pytest.raises(EgshapeError, match="the shape of y depends on data"):
            jax.jit(egshape.jax_call(function))(np.int32(3))


def doubled(payload: bytes) -> Callable[..., Any]:
    """A host function; the payload says whether it fails."""

    def run(given: Any) -> Any:
        if payload:
            raise KeyError("mine")
        return [2 * given[0]]

    return run


def test_a_host_call_and_what_it_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(host.RESOLVERS, "doubled", f"{__name__}:doubled")
    for payload in (b"", b"fails"):
        b = BlockBuilder()
        attrs = {
            "target": "test.Double",
            "call": host.call_of("doubled", payload),
            "dtypes": ("f32",),
            "ranks": (1,),
            "sizes": (symbol("n"),),
        }
        twice = graph_of(b, b.one("host_call", [argument(b, "x", "f32", [symbol("n")])], attrs))
        function = egshape.compile(twice, "llvm", optimize=False)
        call, x = jax.jit(egshape.jax_call(pickle.loads(pickle.dumps(function)), "ffi")), np.arange(6, dtype=np.float32)
        if payload:
            with pytest.raises(Exception, match="mine"):
                jax.block_until_ready(call(x))
        else:
            np.testing.assert_array_equal(call(x), 2 * x)


def test_pickled_and_loaded_functions_and_none_that_jax_cannot_call(tmp_path: Path) -> None:
    function = egshape.compile(graph(), "llvm", threads=2)
    function.save(tmp_path / "f.egx")
    for each in (pickle.loads(pickle.dumps(function)), egshape.runtime.load(tmp_path / "f.egx")):
        call = jax.jit(egshape.jax_call(each))
        holds(call(*arrays(5)), *arrays(5))
        with pytest.raises(Exception, match="65 rows are too many"):
            jax.block_until_ready(call(*arrays(65)))
    with pytest.raises(EgshapeError, match="jax_call takes a compiled function, got a Graph"):
        egshape.jax_call(graph())
    with pytest.raises(EgshapeError, match="XLA calls functions of target='llvm' itself"):
        egshape.jax_call(egshape.compile(graph(), "interpret"), "ffi")


def test_a_program_outlives_the_function() -> None:
    program = jax.jit(egshape.jax_call(egshape.compile(graph(), "llvm"), "ffi")).lower(*arrays(7)).compile()
    gc.collect()
    holds(program(*arrays(7)), *arrays(7))


def test_many_threads_at_once() -> None:
    call = jax.jit(egshape.jax_call(egshape.compile(graph(), "llvm", threads=2), "ffi"))
    with ThreadPoolExecutor(4) as pool:
        for rows, found in zip(
            [*range(1, 9)] * 8, pool.map(lambda rows: call(*arrays(rows)), [*range(1, 9)] * 8), strict=True
        ):
            holds(found, *arrays(rows))


def test_symbolic_sizes_of_jax_are_refused() -> None:
    from jax import export

    (n,) = export.symbolic_shape("n")
    like = [jax.ShapeDtypeStruct((n, 4), np.float32)] * 2 + [jax.ShapeDtypeStruct((4,), np.float32)]
    with pytest.raises(EgshapeError, match="are not numbers while JAX traces"):
        export.export(jax.jit(egshape.jax_call(egshape.compile(graph(), "llvm"))))(*like)


def test_without_a_compiler_it_goes_through_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setenv("EGSHAPE_CACHE", str(tmp_path))
    monkeypatch.setattr("egshape.adapters.jax._handler", lambda: jax_handler.library.__wrapped__(jax.ffi.include_dir()))
    function = egshape.compile(graph(), "llvm")
    holds(jax.jit(egshape.jax_call(function))(*arrays(3)), *arrays(3))
    with pytest.raises(EgshapeError, match="cannot run 'no-such-compiler'"):
        egshape.jax_call(function, "ffi")


def test_a_number_that_no_function_of_the_process_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a program asks for that JAX's cache on disk kept from another process."""
    monkeypatch.setattr("egshape.adapters.jax._registered", lambda function: 5)
    with pytest.raises(Exception, match="calls an egshape function of another process"):
        jax.block_until_ready(egshape.jax_call(egshape.compile(graph(), "llvm"), "ffi")(*arrays(3)))
