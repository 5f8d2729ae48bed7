"""Versions of a function: what more is known behind a guard, the sizes that were seen, and buckets for them."""

from __future__ import annotations

import numpy as np

import egshape
from egshape.buckets import buckets
from egshape.facts import Facts
from egshape.versions import propose

ADD = b"""func.func @main(%x: tensor<?x?xf32>, %y: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %0 = chlo.broadcast_add %x, %y : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}"""


def main() -> None:
    """Propose guards, compile behind one, call on both sides of it, and say what was seen."""
    graph = egshape.load(ADD, "stablehlo")
    for each in propose(graph, most=2):
        print(f"worth a version: {each.guard} ({each.ops} ops, {each.bytes} bytes fewer)")
    fn = egshape.compile(graph, "interpret", versions=["arg0.0 == arg1.0; arg0.1 == arg1.1"], observe=True)
    for shape in ((3, 4), (1, 4), (3, 1), (0, 4)):
        x, y = np.ones((shape[0], 4), np.float32), np.ones(shape, np.float32)
        np.testing.assert_array_equal(fn(x, y), x + y)
        which = [each.function for each in fn.versions].index(fn.choose([x, y]))
        print(f"{x.shape} + {y.shape}: {fn.versions[which].guard or 'any other size'}")
    seen = fn.observed_sizes()
    print("expected from now on:", seen.facts())
    for found in buckets(graph, Facts(), most=2, seen=seen):
        print(f"pad {found.symbol} to {', '.join(str(row.last) for row in found.rows)}")


if __name__ == "__main__":
    main()
