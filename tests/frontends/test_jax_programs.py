"""Programs as JAX exports them, of what its users combine: loops in loops, derivatives of their own, sorts of several
operands, integers of 64 and 4 bits, floats of 8, sizes under constraints, devices. Saved, each equals the export in
XLA, and rejects what it rejects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax")

import jax
import jax.numpy as jnp
from jax import export, lax

import egshape
from egshape.adapters.xla import run_stablehlo
from egshape.errors import CheckFailed
from egshape.frontends.stablehlo.emit import write

F = np.float32
Arrays = list[np.ndarray]


@jax.custom_vjp
def _clipped(x: Any) -> Any:
    return x * 2


_clipped.defvjp(lambda x: (_clipped(x), x), lambda x, g: (jnp.clip(g, -1, 1) * jnp.sign(x),))


def own_derivative(x: Any) -> Any:
    return jax.grad(lambda v: jnp.sum(_clipped(v) ** 2))(x)


def loops_in_loops(x: Any) -> Any:
    def step(total: Any, row: Any) -> Any:
        grown, count = lax.while_loop(
            lambda state: state[0].sum() < 10, lambda state: (state[0] * 1.5 + 1, state[1] + 1), (jnp.abs(row), 0)
        )
        return total + grown, lax.cond(count > 3, lambda: grown * 2, lambda: grown - total)

    return lax.scan(step, jnp.zeros(x.shape[1], F), x)


def derivative_of_a_scan(x: Any) -> Any:
    def loss(v: Any) -> Any:
        return lax.scan(lambda c, row: (jnp.tanh(c * row + 1), c.sum()), jnp.ones(v.shape[1], F), v)[1].sum()

    return jax.value_and_grad(loss)(x)


def sort_of_three(x: Any) -> Any:
    whole = (x * 4).astype(jnp.int32)
    return lax.sort((whole % 3, x, whole), dimension=1, num_keys=2)


def long_integers(x: Any) -> Any:
    whole = (x * 1000).astype(jnp.int64)
    mixed = (whole.astype(jnp.uint64) >> jnp.uint64(3)) ^ jnp.uint64(0x9E3779B97F4A7C15)
    return (whole * 0x7FFFFFFF12345).sum(), whole // jnp.int64(-7), whole % 5, mixed


def truth_values(x: Any) -> Any:
    flag = x > 0
    return (
        flag.any(0),
        flag.all(1),
        flag.sum(1),
        jnp.logical_xor.reduce(flag, axis=0),
        jnp.cumsum(flag, 0),
        flag.argmax(1),
    )


def integers_of_four_bits(x: Any) -> Any:
    few = (x * 2).astype(jnp.int4)
    return (few + few).astype(jnp.int8), jnp.sort(few, axis=0).astype(jnp.int32), jnp.max(few, axis=1).astype(jnp.int8)


def floats_of_eight_bits(x: Any) -> Any:
    few = x.astype(jnp.float8_e4m3b11fnuz)
    return (few + few).astype(F), jnp.where(x > 0, few, -few).astype(F), few.max(1).astype(F)


def devices(x: Any) -> Any:
    spec = jax.sharding.PartitionSpec
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("d",))
    ran = jax.shard_map(
        lambda v: lax.psum(v * 2, "d") + lax.axis_index("d"),
        mesh=mesh,
        in_specs=spec("d"),
        out_specs=spec(),
        check_vma=False,
    )
    return lax.with_sharding_constraint(ran(x), jax.sharding.NamedSharding(mesh, spec(None)))


def masks(x: Any) -> Any:
    lengths = (jnp.abs(x[:, 0]) * 2).astype(jnp.int32) + 1
    inside = jnp.arange(x.shape[1])[None] < lengths[:, None]
    return jax.nn.softmax(x, where=inside), jnp.where(inside, x, 0).sum(1) / jnp.maximum(inside.sum(1), 1)


def unique(x: Any) -> Any:
    whole = (x * 3).astype(jnp.int32).reshape(-1)
    return jnp.unique(whole, size=4, fill_value=-1), jnp.histogram(whole, bins=3, range=(0, 6))[0]


def under_a_constraint(x: Any) -> Any:
    return x[x.shape[1] :].sum(0), (x[: x.shape[1]] @ x.T).sum(0)


ROWS, PLAIN = "n, 3", ((1, 3), (2, 3), (5, 3), (0, 3))
PROGRAMS: Sequence[tuple[Callable[..., Any], str, Sequence[str], Sequence[tuple[int, ...]]]] = [
    *((each, ROWS, (), PLAIN) for each in (own_derivative, loops_in_loops, derivative_of_a_scan, sort_of_three)),
    *((each, ROWS, (), PLAIN) for each in (long_integers, truth_values, integers_of_four_bits, floats_of_eight_bits)),
    *((each, ROWS, (), PLAIN) for each in (devices, masks, unique)),
    (under_a_constraint, "a, b", ("a >= 2*b",), ((2, 1), (4, 2), (3, 2), (0, 0), (1, 1))),
]
"""Program, its argument's shape, constraints, and sizes, the last ones of which may be excluded."""


@pytest.mark.long_but("truth_values")
@pytest.mark.parametrize(
    ("function", "shape", "constraints", "sizes"), PROGRAMS, ids=[row[0].__name__ for row in PROGRAMS]
)
def test_as_exported(
    function: Callable[..., Any], shape: str, constraints: Sequence[str], sizes: Sequence[tuple[int, ...]]
) -> None:
    scope = export.SymbolicScope(constraints)
    argument = jax.ShapeDtypeStruct(export.symbolic_shape(shape, scope=scope), F)
    with jax.enable_x64(True):
        exported = export.export(jax.jit(function), platforms=["cpu"])(argument)
    result = egshape.optimize(egshape.load(exported))
    assert result.report.status == "saturated", result.report.notes
    text, written, ran = exported.mlir_module(), write(result.graph), 0
    for each in sizes:
        given = [np.random.default_rng(0).standard_normal(each).astype(F) * 2]
        before, after = _results(text, given), _results(written, given)
        assert (before is None) == (after is None), each
        for one, two in zip(before or (), after or (), strict=True):
            assert one.dtype == two.dtype and one.shape == two.shape
            np.testing.assert_allclose(one, two, 2e-5, 2e-5)
        ran += before is not None
    assert 0 < ran < len(sizes), "some sizes are admitted, and some are not"


def _results(text: str, given: Arrays) -> Arrays | None:
    """None where the sizes are rejected."""
    try:
        return run_stablehlo(text, given)
    except CheckFailed:
        return None
