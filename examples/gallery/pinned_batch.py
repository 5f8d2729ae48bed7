"""A pinned batch: what is known of a size is a fact, which the program then checks.

Prints:
    any batch: 41 ops, one image: 40 ops
    (1, 5)
    check: the assumed fact batch == 1 does not hold: batch is 2
"""

import numpy as np

import egshape
from egshape.frontends.builder import Network

net = Network()
image = net.input("image", ["batch", 3, 32, 32])
x = net.relu(net.conv2d(image, 8))
scores = net.linear(net.mean_pool(net.residual_block(x, 8)), 5)
graph = net.graph(scores=net.softmax(scores))

general = egshape.optimize(graph)
pinned = egshape.optimize(graph, assume="batch == 1")
count = {name: sum(each.changes.after.values()) for name, each in (("any", general), ("one", pinned))}
print(f"any batch: {count['any']} ops, one image: {count['one']} ops")

fn = egshape.compile(pinned)
print(fn(np.ones((1, 3, 32, 32), np.float32)).shape)
try:
    fn(np.ones((2, 3, 32, 32), np.float32))
except Exception as error:
    print(error)
