"""A model of PyTorch, optimized, trained as a module of PyTorch again, and written as `.pt2`: `python
examples/torch_out.py`."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch

import egshape


class Classifier(torch.nn.Module):
    """A class for each sequence, its words flattened and put back on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(8, 16)
        self.norm = torch.nn.LayerNorm(16)
        self.out = torch.nn.Linear(16, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        flat = x.reshape(batch * length, width).reshape(batch, length, width)
        return self.out(self.norm(self.inner(flat).relu()).mean(1))


def main() -> None:
    """Train the module that the optimized graph is; write it, and let torch load the file."""
    torch.manual_seed(0)
    model = Classifier()
    shapes = ({0: "batch", 1: "length"},)
    graph = egshape.torch.export(model, (torch.rand(3, 7, 8),), dynamic_shapes=shapes, trained=True, whole=True)
    result = egshape.optimize(graph)
    module = egshape.torch.module(result)
    print("calls:", [str(node.target) for node in module.graph.nodes if "aten" in str(node.target)])
    descent = torch.optim.SGD(module.parameters(), lr=0.1)
    for step in range(20):
        x = torch.rand(2 + step % 3, 1 + step % 5, 8)
        loss = torch.nn.functional.cross_entropy(module(x), x.mean((1, 2)).gt(0.5).long())
        descent.zero_grad()
        loss.backward()
        descent.step()
    torch.testing.assert_close(module(x), model(x))
    print("trained: the model's own parameters")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "classifier.pt2"
        egshape.save(result, path)
        loaded = torch.export.load(path).module()
        for batch, length in ((3, 7), (1, 1), (0, 4)):
            x = torch.rand(batch, length, 8)
            torch.testing.assert_close(loaded(x), model(x))
            print(f"batch {batch}, length {length}: the file is equal to eager")


if __name__ == "__main__":
    main()
