"""An artifact in C++: a header and a shared library, built into a program without Python (artifact.cpp).

Prints:
    2 rows: 0.500 0.500 0.500 0.500
    3 rows: 0.500 0.500 0.500 0.500 0.500 0.500
"""

import subprocess
from pathlib import Path

import egshape
from egshape.frontends.builder import Network

net = Network()
x = net.input("x", ["rows", 2])
graph = net.graph(y=net.softmax(x))

library, header = sorted(egshape.compile(graph).save("c", form="c"))
source = Path(__file__).with_suffix(".cpp")
command = ["c++", "-std=c++17", "-I", header.parent, source, library, f"-Wl,-rpath,{library.parent.resolve()}"]
subprocess.run([*command, "-o", "artifact"], check=True)
print(subprocess.run(["./artifact", "2", "3"], check=True, capture_output=True, text=True).stdout, end="")
