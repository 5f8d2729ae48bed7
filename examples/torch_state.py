"""A cache of keys and values that each step changes in one place, where it lies: `python examples/torch_state.py`."""

from __future__ import annotations

import torch

import egshape

LONGEST, WIDTH = 32, 16


class Step(torch.nn.Module):
    """Attention of one token over all that was before."""

    def __init__(self) -> None:
        super().__init__()
        self.into = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.register_buffer("keys", torch.zeros(LONGEST, WIDTH))
        self.register_buffer("values", torch.zeros(LONGEST, WIDTH))

    def forward(self, x: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        query, key, value = self.into(x).chunk(3, -1)
        self.keys.index_copy_(0, place, key)
        self.values.index_copy_(0, place, value)
        seen = torch.arange(LONGEST) <= place
        scores = (query @ self.keys.T).masked_fill(~seen, float("-inf"))
        return scores.softmax(-1) @ self.values


@torch.no_grad()
def main() -> None:
    """Export, compile, decode with the model's own buffers as results, compare with eager."""
    model, eager = Step().eval(), Step().eval()
    eager.load_state_dict(model.state_dict())
    fn = egshape.compile(egshape.torch.export(model, (torch.zeros(1, WIDTH), torch.tensor([0]))))
    keys, values = model.keys, model.values
    for number in range(LONGEST):
        x, place = torch.randn(1, WIDTH), torch.tensor([number])
        y, *_ = fn(x, place, keys, values, out=[None, keys, values])
        torch.testing.assert_close(y, eager(x, place), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(keys, eager.keys)
    print(f"{LONGEST} steps: equal to eager, the cache is where it was")


if __name__ == "__main__":
    main()
