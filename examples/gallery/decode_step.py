"""A cache that grows: one step of a decoder, compiled once, called at every length of the past.

Prints:
    keys f32[batch, 2, past + 1, 8]
    5 steps, the cache is (3, 2, 5, 8)
"""

import numpy as np

import egshape
from egshape.frontends.builder import Network

net = Network(seed=1)
x = net.input("x", ["batch", 1, 16])
keys = net.input("keys", ["batch", 2, "past", 8])
values = net.input("values", ["batch", 2, "past", 8])
y, new_keys, new_values = net.decoder_step(x, keys, values, heads=2)
graph = net.graph(y=y, keys=new_keys, values=new_values)

result = egshape.optimize(graph)
print("keys", result.graph.outputs[1].type)

step = egshape.compile(result)
state = np.ones((3, 1, 16), np.float32)
cache = [np.zeros((3, 2, 0, 8), np.float32)] * 2  # nothing is past: 0 is a size like others
for _ in range(5):
    state, *cache = step(state, *cache)
print(f"5 steps, the cache is {cache[0].shape}")
