"""A rule of your own: tried on random programs before it is trusted, and named in every reason that uses it.

Prints:
    gallery.even/cosine: sampled ...
    3 ops -> 1 ops
    gallery.even/cosine is among the reasons: True
"""

from pathlib import Path

import egshape
from egshape import rulebook

RULES = str(Path(__file__).with_name("even.egg"))

for verdict in rulebook.test(RULES):
    print(f"{verdict.rule}: {verdict.result}")

graph = egshape.load(
    b"""graph f(%x: f32[n]) {
      symbols n = size(%x, 0)
      %0: f32[n] = negate(%x)
      %1: f32[n] = reshape(%0) {shape=<n>}
      %2: f32[n] = cosine(%1)
      return %2 as y
    }""",
    "egs",
)
result = egshape.optimize(graph, rules=RULES)
print(result.changes.total())
rules = {step.rule for step in result.explain_value("%0").why}
print("gallery.even/cosine is among the reasons:", "gallery.even/cosine" in rules)
