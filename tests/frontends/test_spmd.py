"""Programs for 8 devices: optimized, with what they say of devices, they run through XLA's partitioner as before."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("jax")

from egshape.api import optimize
from egshape.errors import ParseError
from egshape.frontends.stablehlo import read
from egshape.frontends.stablehlo.emit import write

DEVICES = 8

LOWER = """
import json, sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

jax.config.update("jax_use_shardy_partitioner", sys.argv[1] == "shardy")
mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("d", "m"))
at = lambda *axes: NamedSharding(mesh, P(*axes))
only = jax.lax.with_sharding_constraint

def constraints(x, w):
    x = jnp.transpose(jnp.transpose(only(x, at("d", None))))
    y = only(x @ w, at("d", "m"))
    return only(jnp.reshape(jnp.reshape(y, (4, 8)), (8, 4)) + 0.0, at(None, "m")) * 1.0

def inner(x, w):
    f = jax.jit(lambda a: jnp.tanh(a), in_shardings=at("m", None), out_shardings=at(None, "d"))
    return f(jnp.transpose(jnp.transpose(f(x)))) @ w

def manual(x, w):
    y = jnp.transpose(jnp.transpose(x @ w))
    sums = jax.shard_map(lambda a: jax.lax.psum(a, "m"), mesh=mesh, in_specs=P("d", "m"), out_specs=P("d", None))
    return sums(y) + 1.0

found = {}
for f in (constraints, inner, manual):
    out = (at("d", "m") if f is constraints else at("d", None))
    jitted = jax.jit(f, in_shardings=(at("d", None), at(None, "m")), out_shardings=out)
    found[f.__name__] = jitted.lower(jnp.ones((8, 16)), jnp.ones((16, 4))).as_text()
print(json.dumps(found))
"""

RUN = """
import json, sys
import jax, numpy as np
from jax._src import compiler, xla_bridge
from jax._src.interpreters import mlir
from jax._src.lib import _jax
from jax._src.lib.mlir import ir

shardy, client = sys.argv[1] == "shardy", xla_bridge.get_backend("cpu")
devices = client.local_devices()
options = compiler.get_compile_options(1, 8, np.arange(8).reshape(1, 8))
options.executable_build_options.use_shardy_partitioner = shardy
rng = np.random.default_rng(0)
given = [rng.standard_normal(shape).astype(np.float32) for shape in ((8, 16), (16, 4))]

def run(text):
    with mlir.make_ir_context():
        module = ir.Module.parse(text)
        made = client.compile_and_load(module, _jax.DeviceList(tuple(devices)), options)
    arguments = []
    shardings = [made.get_parameter_shardings(), made.get_output_shardings()]
    for x, sharding in zip(given, shardings[0]):
        placed = jax._src.sharding_impls.GSPMDSharding(devices, sharding)
        arguments.append(jax.device_put(x, placed))
    (shards,) = made.execute_sharded(arguments).disassemble_into_single_device_arrays()
    said = [[str(each) for each in side] for side in shardings]
    collectives = sorted(word for word in made.hlo_modules()[0].to_string().split() if word.startswith("all-"))
    return said, [np.asarray(each).tolist() for each in shards], len(collectives)

print(json.dumps([run(text) for text in json.load(sys.stdin)]))
"""


def _on_devices(script: str, partitioner: str, given: str = "") -> object:
    env = {**os.environ, "XLA_FLAGS": f"--xla_force_host_platform_device_count={DEVICES}", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", script, partitioner]
    found = subprocess.run(command, input=given, capture_output=True, text=True, env=env, timeout=120, check=False)
    assert found.returncode == 0, found.stderr[-2000:]
    return json.loads(found.stdout.splitlines()[-1])


@pytest.mark.parametrize("partitioner", ["shardy", "gspmd"])
def test_partitioned_programs_give_the_same_with_the_same_shardings(partitioner: str) -> None:
    programs: dict[str, str] = _on_devices(LOWER, partitioner)  # type: ignore[assignment]
    optimized = {}
    for name, text in programs.items():
        result = optimize(read(text, f"{name}.mlir"))
        optimized[name] = write(result.graph)
        assert len(result.graph.ops) < len(read(text, "t.mlir").ops), "something was rewritten"
    texts = [each[name] for name in programs for each in (programs, optimized)]
    found: list[list[object]] = _on_devices(RUN, partitioner, json.dumps(texts))  # type: ignore[assignment]
    for place, name in enumerate(programs):
        before, after = found[2 * place : 2 * place + 2]
        assert after[0] == before[0], f"shardings of {name}"
        assert after[1] == before[1], f"the shards of {name}, on each device"
        assert after[2] == before[2], f"what devices say to each other in {name}"


ANNOTATED = {
    "sdy": (
        'sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"d"}, {}]>]>',
        'sdy.mesh @mesh = <["d"=4, "m"=2]>',
        'sharding = #sdy.sharding<@mesh, [{"d"}, {}]>',
    ),
    "mhlo": ('mhlo.sharding = "{devices=[8,1]<=[8]}"', "", 'mhlo.sharding = "{devices=[8,1]<=[8]}"'),
}


@pytest.mark.parametrize("kind", ANNOTATED)
def test_what_an_op_says_of_its_results_stays_where_it_was_said(kind: str) -> None:
    said, mesh, stays = ANNOTATED[kind]
    text = f"""module {{
  {mesh}
  func.func @main(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {{
    %0 = stablehlo.transpose %x, dims = [1, 0] {{{said}}} : (tensor<8x16xf32>) -> tensor<16x8xf32>
    %1 = stablehlo.transpose %0, dims = [1, 0] {{{said}}} : (tensor<16x8xf32>) -> tensor<8x16xf32>
    %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<8x16xf32>) -> tensor<16x8xf32>
    %3 = stablehlo.transpose %2, dims = [1, 0] : (tensor<16x8xf32>) -> tensor<8x16xf32>
    return %3 : tensor<8x16xf32>
  }}
}}"""
    written = write(optimize(read(text, "t.mlir")).graph)
    assert written.count(stays) == 2, "what was said between them stops two transposes from being none"
    assert written.count("stablehlo.transpose") == 2
    assert write(read(written, "o.mlir")) == written


def test_a_constant_keeps_its_sharding() -> None:
    said, mesh, stays = ANNOTATED["sdy"]
    text = f"""module {{
  {mesh}
  func.func @main(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {{
    %0 = stablehlo.constant {{{said}}} dense<1.0> : tensor<8x16xf32>
    %1 = stablehlo.multiply %x, %0 : tensor<8x16xf32>
    return %1 : tensor<8x16xf32>
  }}
}}"""
    assert write(optimize(read(text, "t.mlir")).graph).count(stays) == 1


def test_what_a_function_says_of_what_it_takes_and_gives_stays() -> None:
    said = 'mhlo.sharding = "{devices=[8,1]<=[8]}"'
    text = f"""module {{
  func.func @main(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {{
    %0 = call @f(%x) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    return %0 : tensor<8x16xf32>
  }}
  func.func private @f(%x: tensor<8x16xf32> {{{said}}}) -> (tensor<8x16xf32> {{{said}}}) {{
    %0 = stablehlo.tanh %x : tensor<8x16xf32>
    return %0 : tensor<8x16xf32>
  }}
}}"""
    assert write(optimize(read(text, "t.mlir")).graph).count(said) == 2


def test_a_sharding_of_the_wrong_number_of_values_is_refused() -> None:
    text = """module {
  func.func @main(%x: tensor<8xf32>, %n: tensor<i32>) -> tensor<8xf32> {
    %0:2 = "stablehlo.optimization_barrier"(%x, %n) {mhlo.sharding = "{{replicated}}"}
        : (tensor<8xf32>, tensor<i32>) -> (tensor<8xf32>, tensor<i32>)
    return %0#0 : tensor<8xf32>
  }
}"""
    with pytest.raises(ParseError, match="speaks of 1 values, but there are 2"):
        read(text, "t.mlir")
