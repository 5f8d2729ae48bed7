"""The small graphs of the CUDA benchmark, in StableHLO: one kernel each, or none but the host's work."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import egshape
from egshape.ir.graph import Graph

Options = Mapping[str, int]


def _text(body: str, result: str, dtype: str, more: str = "") -> Graph:
    """A function of x[rows, width] in StableHLO that gives %y."""
    module = f"func.func @main(%x: tensor<?x?x{dtype}>{more}) -> {result} {{\n{body}\n  return %y : {result}\n}}\n"
    return egshape.load(module.encode(), "mlir")


def _chain(dtype: str, _: Options) -> Graph:
    """tanh(y) * x + x, again and again: one pass over memory."""
    full, lines, last = f"tensor<?x?x{dtype}>", [], "%x"
    for k in range(4):
        names = [f"%t{k}", f"%m{k}", "%y" if k == 3 else f"%a{k}"]
        lines += [
            f"  {names[0]} = stablehlo.tanh {last} : {full}",
            f"  {names[1]} = stablehlo.multiply {names[0]}, %x : {full}",
            f"  {names[2]} = stablehlo.add {names[1]}, %x : {full}",
        ]
        last = names[2]
    return _text("\n".join(lines), full, dtype)


def _reduced(dims: str, result: str) -> Callable[[str, Options], Graph]:
    def build(dtype: str, _: Options) -> Graph:
        full, found = f"tensor<?x?x{dtype}>", f"tensor<{result}{dtype}>"
        return _text(
            f"  %z = stablehlo.constant dense<0.0> : tensor<{dtype}>\n"
            f"  %y = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [{dims}] : "
            f"({full}, tensor<{dtype}>) -> {found}",
            found,
            dtype,
        )

    return build


def _transpose(dtype: str, _: Options) -> Graph:
    """Rows and columns changed over."""
    full = f"tensor<?x?x{dtype}>"
    return _text(f"  %y = stablehlo.transpose %x, dims = [1, 0] : ({full}) -> {full}", full, dtype)


def _many(dtype: str, options: Options) -> Graph:
    """The sum of many small arrays: what counts is what the host needs for each of them."""
    count, full = options.get("inputs", 1), f"tensor<?x?x{dtype}>"
    lines = [f"  %s{k} = stablehlo.add {f'%s{k - 1}' if k > 1 else '%x'}, %a{k} : {full}" for k in range(1, count)]
    last = f"%s{count - 1}" if count > 1 else "%x"
    lines.append(f"  %y = stablehlo.negate {last} : {full}")
    return _text("\n".join(lines), full, dtype, "".join(f", %a{k}: {full}" for k in range(1, count)))


_BUILDERS: dict[str, Callable[[str, Options], Graph]] = {
    "chain": _chain,
    "columns": _reduced("0", "?x"),
    "total": _reduced("0, 1", ""),
    "transpose": _transpose,
    "many": _many,
}
KINDS = (*_BUILDERS, "softmax")


def build(kind: str, dtype: str, options: Options) -> Graph:
    """A graph by its kind."""
    if kind == "softmax":
        from benchmarks.cpu.networks import softmax_bias

        return softmax_bias().graph()
    return _BUILDERS[kind](dtype, options)


def inputs(kind: str, dtype: str, options: Options) -> list[tuple[str, list[int | str]]]:
    """The dtype and the shape of each input."""
    if kind == "softmax":
        return [(dtype, ["rows", "width"]), (dtype, ["width"])]
    return [(dtype, ["rows", "width"])] * options.get("inputs", 1)
