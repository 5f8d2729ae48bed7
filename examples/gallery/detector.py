"""A detector: how many boxes are good is known only when the program runs; what follows from it is known before.

Prints:
    kept f32[%places.1, 4] areas f32[%places.1]
    2 of 3 boxes, areas [4.0, 1.0]
    0 of 0 boxes, areas []
"""

import numpy as np
from onnx import parser

import egshape

model = parser.parse_model("""
    <ir_version: 8, opset_import: ["": 17]>
    detect (float[n] scores, float[n, 4] boxes) => (float[good, 4] kept, float[good] areas) {
        half = Constant<value_float = 0.5> ()
        is_good = Greater (scores, half)
        places = NonZero (is_good)
        first = Constant<value_ints = [0]> ()
        rows = Squeeze (places, first)
        kept = Gather (boxes, rows)
        ends = Constant<value_ints = [2, 2]> ()
        low, high = Split<axis = 1> (kept, ends)
        sides = Sub (high, low)
        areas = ReduceProd<axes = [1], keepdims = 0> (sides)
    }""")
result = egshape.optimize(model)
print(*(f"{each.name} {each.dtype}[{', '.join(each.shape)}]" for each in result.report.outputs))

fn = egshape.compile(result)
for scores in ([0.9, 0.1, 0.8], []):
    boxes = np.array([[0, 0, 2, 2], [0, 0, 9, 9], [1, 1, 2, 2]], np.float32)[: len(scores)]
    kept, areas = fn(np.array(scores, np.float32), boxes)
    print(f"{len(kept)} of {len(boxes)} boxes, areas {areas.tolist()}")
