"""Small networks with open sizes: what a module is made of, example arguments, the axes that are open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.frontends.torch.running import Call, torch

nn = torch.nn


class Recurrent(nn.Module):  # type: ignore[misc, name-defined]
    """An LSTM, its last step classified."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 6, batch_first=True)
        self.out = nn.Linear(6, 3)

    def forward(self, x: Any) -> Any:
        return self.out(self.lstm(x)[0][:, -1])


class Tokens(nn.Module):  # type: ignore[misc, name-defined]
    """Embedded tokens, attended to with a causal mask."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 8)
        self.places = nn.Embedding(32, 8)
        self.project = nn.Linear(8, 24)

    def forward(self, tokens: Any) -> Any:
        x = self.table(tokens) + self.places(torch.arange(tokens.shape[1]))
        q, k, v = (each.unflatten(-1, (2, 4)).transpose(1, 2) for each in self.project(x).chunk(3, -1))
        out = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return out.transpose(1, 2).flatten(2)


class Mixture(nn.Module):  # type: ignore[misc, name-defined]
    """Two experts of four for each row."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(4, 4)
        self.experts = nn.Parameter(torch.randn(4, 4, 5))

    def forward(self, x: Any) -> Any:
        weights, chosen = self.gate(x).softmax(-1).topk(2, -1)
        every = torch.einsum("bi,eio->beo", x, self.experts)
        taken = every.gather(1, chosen[..., None].expand(-1, -1, 5))
        return (taken * weights[..., None]).sum(1)


class Unet(nn.Module):  # type: ignore[misc, name-defined]
    """Down by strides, up again, joined."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(2, 4, 3, 2, 1)
        self.up = nn.ConvTranspose2d(4, 2, 2, 2)
        self.norm = nn.GroupNorm(2, 4)

    def forward(self, x: Any) -> Any:
        return torch.cat([x, self.up(nn.functional.silu(self.norm(self.down(x))))], 1)


def _convolutions() -> Any:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, 1, 1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    )


def _counted(x: Any) -> Any:
    out = torch.zeros(5).index_add(0, (x * 5).long().clamp(0, 4), x)
    return out, x.cumsum(0), x.sort(descending=True)[0]


def _picked(x: Any) -> Any:
    return x[x > 0.5].cumsum(0)


def _masked(x: Any, lengths: Any) -> Any:
    mask = torch.arange(x.shape[1])[None] < lengths[:, None]
    return x.masked_fill(~mask, 0).sum(1) / lengths.clamp(min=1)


Network = tuple[
    Callable[[], Any], Callable[..., Sequence[Any]], tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]
]

NETWORKS: dict[str, Network] = {
    "encoder": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
        lambda b, s: (torch.rand(b, s, 8),),
        ((0, 1),),
        ((2, 3), (3, 2), (2, 7)),
    ),
    "convolutions": (_convolutions, lambda b: (torch.rand(b, 2, 8, 8),), ((0,),), ((2,), (1,), (0,))),
    "lstm": (Recurrent, lambda b: (torch.rand(b, 3, 4),), ((0,),), ((2,), (1,), (5,))),
    "tokens": (Tokens, lambda b, s: (torch.randint(0, 11, (b, s)),), ((0, 1),), ((2, 3), (1, 5), (4, 1))),
    "mixture": (Mixture, lambda b: (torch.rand(b, 4),), ((0,),), ((3,), (1,), (0,))),
    "unet": (Unet, lambda b, h: (torch.rand(b, 2, 2 * h, 8),), ((0, 2),), ((2, 4), (3, 2), (2, 9))),
    "counted": (lambda: Call(_counted), lambda n: (torch.rand(n),), ((0,),), ((4,), (1,), (0,))),
    "picked": (lambda: Call(_picked), lambda n: (torch.rand(n),), ((0,),), ((4,), (1,), (9,))),
    "masked": (
        lambda: Call(_masked),
        lambda b, s: (torch.rand(b, s), torch.randint(1, 3, (b,))),
        ((0, 1), (0,)),
        ((2, 3), (4, 1), (1, 5)),
    ),
}
"""What makes the module, its arguments at sizes, the axes that are open, and sizes to try; the first are traced."""
