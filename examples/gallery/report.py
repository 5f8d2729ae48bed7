"""A report: one HTML file with both graphs, what became of each op, and why; it opens in any browser.

Prints:
    network: ... ops -> ... ops (saturated, ... s)
    report.html: ... kB
"""

from pathlib import Path

import egshape
from egshape.cli import main
from egshape.frontends.builder import Network

net = Network()
ids = net.input("ids", ["batch", "length"], "i64")
keep = net.input("keep", ["batch", "length"], "i64")
x = net.layernorm(net.embedding(ids, 100, 16, positions=64))
x = net.encoder_layer(x, heads=2, mask=net.padding_mask(keep))
graph = net.graph(hidden=x)
egshape.save(graph, "encoder.egs")
print(repr(egshape.optimize(graph)).removeprefix("<Result for ").removesuffix(">"))

main(["viz", "encoder.egs", "-o", "report.html", "--advise-seconds", "1"])
print(f"report.html: {Path('report.html').stat().st_size // 1000} kB")
