"""Values that are no tensors of ours (tokens, tuples) and arithmetic that ours lacks (of 4 and 8 bits): no module is
refused for them, and effects keep their order."""

from __future__ import annotations

import re

import numpy as np
import pytest

pytest.importorskip("jax")

from egshape.adapters.xla import run_stablehlo, verify_stablehlo
from egshape.api import compile as compile_graph
from egshape.api import optimize
from egshape.frontends.stablehlo import read
from egshape.frontends.stablehlo.emit import write
from egshape.ir.types import NARROW, is_narrow_integer, numpy_dtype

X, T = "tensor<?xf32>", "!stablehlo.token"


def _say(name: str, x: str, token: str, given: str) -> str:
    return f'{name} = "stablehlo.outfeed"({x}, {token}) <{{outfeed_config = "{given}"}}> : ({X}, {T}) -> {T}'


ARMS = f"""({{
    {_say("%u", "%x", "%t", "in an arm")}
    stablehlo.return %x, %u : {X}, {T} }}, {{
    %y = stablehlo.add %x, %x : {X}
    stablehlo.return %y, %t : {X}, {T} }})"""

TOKENS = {
    "main": f"""func.func @main(%t: {T}, %x: {X}, %s: {T}) -> ({X}, {T}, {T}) {{
      {_say("%1", "%x", "%t", "first")}
      {_say("%2", "%x", "%t", "second")}
      %3 = stablehlo.after_all %2, %1 : {T}
      return %x, %3, %s : {X}, {T}, {T} }}""",
    "while": f"""func.func @main(%x: {X}, %n: tensor<i32>) -> {X} {{
      %t = stablehlo.create_token : {T}
      %0:3 = stablehlo.while(%i = %n, %a = %x, %s = %t) : tensor<i32>, {X}, {T} cond {{
        %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      }} do {{
        {_say("%u", "%a", "%s", "in a loop")}
        stablehlo.return %i, %a, %u : tensor<i32>, {X}, {T}
      }}
      {_say("%v", "%0#1", "%0#2", "behind it")}
      return %0#1 : {X} }}""",
    "if": f"""func.func @main(%x: {X}, %p: tensor<i1>) -> {X} {{
      %t = stablehlo.create_token : {T}
      %0:2 = "stablehlo.if"(%p) {ARMS} : (tensor<i1>) -> ({X}, {T})
      {_say("%v", "%0#0", "%0#1", "behind it")}
      return %0#0 : {X} }}""",
    "case": f"""func.func @main(%x: {X}, %p: tensor<i32>) -> {X} {{
      %t = stablehlo.create_token : {T}
      %0:2 = "stablehlo.case"(%p) {ARMS} : (tensor<i32>) -> ({X}, {T})
      {_say("%v", "%0#0", "%0#1", "behind it")}
      return %0#0 : {X} }}""",
    "calls": f"""module {{
      func.func private @say(%t: {T}, %x: {X}) -> ({X}, {T}) {{
        %0:2 = stablehlo.custom_call @say(%t, %x) {{has_side_effect = true}} : ({T}, {X}) -> ({T}, {X})
        return %0#1, %0#0 : {X}, {T} }}
      func.func @main(%x: {X}) -> {X} {{
        %t = stablehlo.create_token : {T}
        %0:2 = call @say(%t, %x) : ({T}, {X}) -> ({X}, {T})
        %1:2 = call @say(%0#1, %0#0) : ({T}, {X}) -> ({X}, {T})
        return %1#0 : {X} }} }}""",
    "infeed": f"""func.func @main(%x: {X}) -> tensor<3xf32> {{
      %t = stablehlo.create_token : {T}
      {_say("%u", "%x", "%t", "")}
      %0:2 = "stablehlo.infeed"(%u) <{{infeed_config = "", layout = [[0]]}}> : ({T}) -> (tensor<3xf32>, {T})
      return %0#0 : tensor<3xf32> }}""",
    "send": f"""func.func @main(%x: {X}) -> tensor<3xf32> {{
      %t = stablehlo.create_token : {T}
      %0 = "stablehlo.send"(%x, %t) <{{channel_handle = #stablehlo.channel_handle<handle = 1, type = 2>,
        is_host_transfer = true}}> : ({X}, {T}) -> {T}
      %1:2 = "stablehlo.recv"(%0) <{{channel_handle = #stablehlo.channel_handle<handle = 2, type = 3>,
        is_host_transfer = true}}> : ({T}) -> (tensor<3xf32>, {T})
      return %1#0 : tensor<3xf32> }}""",
    "tuple of a call": """func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
      %t = stablehlo.custom_call @foo(%x) : (tensor<3xf32>) -> tuple<tensor<3xf32>, tensor<2xi32>>
      %0 = stablehlo.get_tuple_element %t[0] : (tuple<tensor<3xf32>, tensor<2xi32>>) -> tensor<3xf32>
      return %0 : tensor<3xf32> }""",
}

CALLED = {"calls": ["custom_call"] * 2}
"""What a module does whose functions go in line."""

_EFFECTS = re.compile(r"outfeed|custom_call|infeed|send|recv|after_all|in an arm|in a loop|behind it|first|second")


@pytest.mark.parametrize("name", TOKENS)
def test_tokens_go_out_as_they_came(name: str) -> None:
    """The text loads in XLA, each effect is there once, in order, and the types of ``main`` are the same."""
    text = TOKENS[name]
    written = write(optimize(read(text, "t.mlir")).graph)
    verify_stablehlo(written)
    assert _EFFECTS.findall(written) == CALLED.get(name, _EFFECTS.findall(text))
    assert _kinds(written) == _kinds(text)
    assert write(optimize(read(written, "t.mlir")).graph) == written


def _kinds(text: str) -> list[str]:
    """The types of the public function."""
    line = next(line for line in text.split("\n") if "@main" in line)
    return re.findall(r"tensor<[^>]*>|!stablehlo\.token", line)


def test_each_effect_keeps_its_token() -> None:
    written = write(optimize(read(TOKENS["main"], "t.mlir")).graph)
    first, second = (line for line in written.split("\n") if "outfeed" in line)
    (joined,) = (line for line in written.split("\n") if "after_all" in line)
    assert "%arg0)" in first and "%arg0)" in second
    assert f"({second.split()[0]}, {first.split()[0]})" in joined
    assert re.search(r"return %arg1, %\w+, %arg2 :", written)


def test_what_a_tuple_was_made_of_needs_no_tuple() -> None:
    pair = f"tuple<{X}, tensor<i32>>"
    text = f"""func.func @main(%x: {X}, %n: tensor<i32>) -> {X} {{
      %0 = stablehlo.tuple %x, %n : {pair}
      %1 = stablehlo.get_tuple_element %0[0] : ({pair}) -> {X}
      %2 = stablehlo.add %1, %x : {X}
      return %2 : {X} }}"""
    assert [op.name for op in optimize(read(text, "t.mlir")).graph.ops] == ["add"]


def test_a_composite_of_tokens_keeps_its_function() -> None:
    text = f"""module {{
      func.func private @twice(%t: {T}, %x: {X}) -> ({X}, {T}) {{
        %y = stablehlo.add %x, %x : {X}
        return %y, %t : {X}, {T} }}
      func.func @main(%x: {X}) -> {X} {{
        %t = stablehlo.create_token : {T}
        %0:2 = stablehlo.composite "my.twice" %t, %x {{decomposition = @twice}} : ({T}, {X}) -> ({X}, {T})
        return %0#0 : {X} }} }}"""
    written = write(optimize(read(text, "t.mlir")).graph)
    assert "decomposition = @twice" in written and "func.func private @twice" in written


def test_a_token_is_made_where_a_program_runs() -> None:
    """Ops that hold tokens, and do nothing with them, run in XLA."""
    text = f"""func.func @main(%x: {X}, %n: tensor<i32>) -> {X} {{
        %z = stablehlo.constant dense<0> : tensor<i32>
        %o = stablehlo.constant dense<1> : tensor<i32>
        %t = stablehlo.create_token : {T}
        %0:3 = stablehlo.while(%i = %z, %a = %x, %s = %t) : tensor<i32>, {X}, {T} cond {{
          %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %c : tensor<i1>
        }} do {{
          %j = stablehlo.add %i, %o : tensor<i32>
          %b = stablehlo.add %a, %a : {X}
          stablehlo.return %j, %b, %s : tensor<i32>, {X}, {T} }}
        %1:2 = stablehlo.optimization_barrier %0#1, %0#2 : {X}, {T}
        return %1#0 : {X} }}"""
    graph = optimize(read(text, "t.mlir")).graph
    written, native = write(graph), compile_graph(graph, "llvm")
    for size in (0, 1, 5):
        given = [np.arange(size, dtype=np.float32), np.array(3, np.int32)]
        (wanted,) = run_stablehlo(text, given)
        np.testing.assert_array_equal(run_stablehlo(written, given)[0], wanted)
        np.testing.assert_array_equal(native(*given), wanted)


BROKEN_IN_XLA = ("f6E2M3FN", "f6E3M2FN", "f4E2M1FN", "f8E8M0FNU")
"""What XLA's CPU compiler cannot, or in its own way."""


@pytest.mark.long_but("f8E4M3", "i4")
@pytest.mark.parametrize("dtype", [each for each in NARROW if each not in BROKEN_IN_XLA])
def test_arithmetic_of_few_bits(dtype: str) -> None:
    wide = "i32" if is_narrow_integer(dtype) else "f32"
    narrow = f"tensor<?x{dtype}>"
    text = f"""func.func @main(%x: {narrow}, %y: {narrow}) -> ({narrow}, tensor<?xi1>, tensor<{dtype}>) {{
      %0 = stablehlo.add %x, %y : {narrow}
      %1 = stablehlo.maximum %0, %y : {narrow}
      %2 = stablehlo.compare LT, %1, %x : ({narrow}, {narrow}) -> tensor<?xi1>
      %z = stablehlo.constant dense<{"0" if wide == "i32" else "0.0"}> : tensor<{dtype}>
      %3 = stablehlo.reduce(%1 init: %z) applies stablehlo.add across dimensions = [0] :
        ({narrow}, tensor<{dtype}>) -> tensor<{dtype}>
      return %1, %2, %3 : {narrow}, tensor<?xi1>, tensor<{dtype}> }}"""
    graph = read(text, "t.mlir")
    assert [str(value.type) for value in graph.outputs] == [f"{dtype}[arg0.0]", "i1[arg0.0]", f"{dtype}[]"]
    written, run = write(optimize(graph).graph), compile_graph(graph, optimize=False)
    for size in (0, 5):
        low = np.arange(size) - (0 if dtype.startswith("u") else 2)
        given = [each.astype(numpy_dtype(dtype)) for each in (low % 4, low[::-1] % 3)]
        wanted = run_stablehlo(text, given)
        for found in (run_stablehlo(written, given), run(*given)):
            for one, two in zip(wanted, found, strict=True):
                np.testing.assert_array_equal(one.view(np.uint8), two.view(np.uint8))


def test_sizes_that_clash_are_no_matter_of_the_dtype() -> None:
    from egshape.errors import EgshapeError

    text = """func.func @main(%x: tensor<?xi4>, %y: tensor<?xi4>) -> tensor<?xi4> {
      %0 = stablehlo.add %x, %y : tensor<?xi4>
      return %0 : tensor<?xi4> }"""
    function = compile_graph(optimize(read(text, "t.mlir")), "llvm")
    with pytest.raises(EgshapeError, match=r"arg0.0 == arg1.0|arg1.0 == arg0.0"):
        function(*(np.zeros(size, numpy_dtype("i4")) for size in (2, 3)))
