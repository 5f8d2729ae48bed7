"""Many models over a cluster: here threads of this process; give a scheduler's address for machines.

Prints:
    mlp-1.egs: 0, 8 ops -> ... ops
    mlp-2.egs: 0, 16 ops -> ... ops
    none.egs: 2, ...
"""

import json

import distributed

import egshape.cluster
from egshape.frontends.builder import Network

for depth in (1, 2):
    net = Network(seed=depth)
    x = net.input("x", ["batch", 8])
    for _ in range(depth):
        x = net.relu(net.linear(x, 8))
    egshape.save(net.graph(y=x), f"mlp-{depth}.egs")

paths = ["mlp-1.egs", "mlp-2.egs", "none.egs"]
with distributed.Client(processes=False, dashboard_address=None) as client:
    for each in egshape.cluster.optimize(paths, client):
        ops = json.loads(each.report)["ops"] if each.report else None
        told = f"{ops['before']['total']} ops -> {ops['after']['total']} ops" if ops else each.said.strip()
        print(f"{each.model}: {each.code}, {told}")
