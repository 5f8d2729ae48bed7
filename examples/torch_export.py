"""A model of PyTorch, exported once, run at every batch and length: `python examples/torch_export.py`."""

from __future__ import annotations

import numpy as np
import torch

import egshape


class Tagger(torch.nn.Module):
    """Scores of 5 tags for each word of a sentence."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(100, 16)
        self.norm = torch.nn.LayerNorm(16)
        self.out = torch.nn.Linear(16, 5)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids)
        x = x + torch.nn.functional.scaled_dot_product_attention(x, x, x)
        return self.out(self.norm(x)).softmax(-1)


def main() -> None:
    """Export, compile, compare with eager at four sizes."""
    model = Tagger().eval()
    graph = egshape.torch.export(model, (torch.zeros(3, 7, dtype=torch.int64),), dynamic_shapes=({0: "b", 1: "s"},))
    print("input:", graph.inputs[0].type, "output:", graph.outputs[0].type)
    fn = egshape.compile(graph)
    for batch, length in ((3, 7), (1, 1), (2, 30), (0, 4)):
        ids = torch.randint(0, 100, (batch, length))
        wanted = model(ids).detach().numpy()
        np.testing.assert_allclose(fn(ids.numpy()), wanted, rtol=1e-4, atol=1e-5)
        print(f"batch {batch}, length {length}: equal to eager")


if __name__ == "__main__":
    main()
