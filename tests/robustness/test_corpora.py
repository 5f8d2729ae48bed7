"""A sample of each corpus: every program ends right, or in one clear error. The whole of them: `make corpora`."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the extra stablehlo")
pytest.importorskip("onnxruntime", reason="needs the extra onnx")

from benchmarks.robustness import grammar_corpus, jax_corpus, jax_exports, onnx_corpus, zoo_corpus
from benchmarks.robustness.corpora import NAMES, corpus
from benchmarks.robustness.outcome import Row
from benchmarks.zoo import fetch
from egshape.frontends.stablehlo import read
from egshape.ir.interpret import interpret
from egshape.ops import REGISTRY

GOOD = ("right", "opaque")
ELSEWHERE = ("call", "custom_call", "host_call", "host_effect")
"""Ops that no program of the grammar has: they call what is not here; readers alone make functions that are shared
(tests/frontends/test_calls_stay.py)."""


def run(name: str, program: str) -> Row:
    return corpus(name).run(program, lambda stage: None)


@pytest.mark.parametrize(
    "program",
    [
        "jnp.add(x, y)",
        "from0 jnp.sum(x, axis=0)",
        "grad jnp.tanh(x)",
        "jnp.einsum('bi,ci->bc', x, y)",
        "lax.scan(lambda acc, row: (acc + row, acc * row), l, x)",
        "random.uniform(K, (b,))",
        "jnp.linalg.cholesky(a @ a.mT + 4 * jnp.eye(4))",
        "nn.softmax(x)",
        "lax.reshape(x, (4 * b,))",
    ],
)
def test_jax(program: str) -> None:
    row = run("jax", program)
    assert row.outcome in (*GOOD, "rejected-clearly"), row
    if row.outcome in GOOD:
        assert row.points >= 3


def test_violating_sizes_are_among_those_tried() -> None:
    row = run("jax", "jnp.multiply(x, y)")
    assert row.outcome == "right" and row.rejected >= 3, row


@pytest.mark.parametrize("seed", range(10, 20))
def test_grammar(seed: int) -> None:
    row = run("grammar", f"seed {seed}")
    assert row.outcome == "right" and row.points >= 2, row


def test_a_saved_file_that_xla_computes_otherwise_is_found() -> None:
    line = (
        "func.func @main(%x: tensor<?xi32>) -> tensor<?xi32> {{\n"
        "  %0 = stablehlo.{} %x, %x : tensor<?xi32>\n  return %0 : tensor<?xi32> }}"
    )
    one, other = line.format("add"), line.format("multiply")
    graph, arrays = read(one, "m.mlir"), [np.arange(5, dtype=np.int32)]
    wanted = interpret(graph, arrays)
    assert grammar_corpus._in_xla(graph, one, arrays, wanted) == ""
    assert "differs" in grammar_corpus._in_xla(graph, other, arrays, wanted)


@pytest.mark.long
def test_more_of_what_xla_runs() -> None:
    jax_programs = corpus("jax").programs()[200::400]
    found = [run("jax", each) for each in jax_programs] + [run("grammar", f"seed {seed}") for seed in range(300, 316)]
    assert sum(row.outcome in GOOD for row in found) >= 12 and not [row for row in found if row.fault]


@pytest.mark.parametrize("group", ["add", "gather", "cumsum", "reduce_window"])
def test_harnesses_of_jax(group: str) -> None:
    found = [each for each in corpus("harness").programs() if each.startswith(f"{group}_")]
    if not found:
        pytest.skip("the harnesses of jax need absl-py")
    row = run("harness", found[0])
    assert row.outcome in GOOD and row.points >= 3, row


@pytest.mark.parametrize("program", zoo_corpus.programs()[:1] or ["no zoo"])
def test_zoo(program: str) -> None:
    if program == "no zoo":
        pytest.skip(f"no models in {fetch.cache_folder()} (python -m benchmarks.zoo.fetch brings them)")
    assert run("zoo", program).outcome in GOOD


@pytest.mark.long
def test_onnx() -> None:
    names = onnx_corpus.programs()[::501]
    rows = [run("onnx", name) for name in names]
    assert len(rows) >= 8
    bad = [row for row in rows if row.outcome not in (*GOOD, "rejected-clearly", "no-oracle")]
    assert not bad, bad


def test_the_programs_of_jax() -> None:
    programs = jax_corpus.programs()
    assert len(programs) == len(set(programs)) >= 600
    assert sum(program.startswith("grad ") for program in programs) >= 100
    assert all(jax_exports.letters(program) for program in programs)
    assert len({jax_exports.body(program).partition("(")[0] for program in programs}) >= 450


def test_every_op_is_in_the_grammar() -> None:
    found = {op.name for seed in range(400) for op in grammar_corpus.program(seed)[1].body.walk()}
    assert {decl.name for decl in REGISTRY if not decl.custom} - found <= set(ELSEWHERE)


def test_the_grammar_makes_one_program_of_a_seed() -> None:
    assert str(grammar_corpus.program(3)[1]) == str(grammar_corpus.program(3)[1])


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_larger_sample(name: str) -> None:
    rows = [run(name, program) for program in corpus(name).programs()[20:60]]
    assert not [row for row in rows if row.fault]
