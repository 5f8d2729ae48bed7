"""Small torch modules of our own in the ways of well-known models, for ``benchmarks.zoo.exports``.

They are written as model authors write them: sizes read with ``x.shape`` or ``x.size()`` wherever one is needed, masks
expanded in every call, heads split and merged with ``view``, caches concatenated in every layer. Weights are random.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def split_heads(x: Tensor, heads: int) -> Tensor:
    """[batch, sequence, width] to [batch, heads, sequence, width / heads]."""
    batch, length, width = x.size()
    return x.view(batch, length, heads, width // heads).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """The inverse of ``split_heads``."""
    batch, heads, length, width = x.size()
    return x.transpose(1, 2).contiguous().view(batch, length, heads * width)


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    """Attention with an additive bias that broadcasts to [batch, heads, queries, keys]."""
    scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.size(-1)) + bias
    return torch.matmul(torch.softmax(scores, dim=-1), v)


def additive(mask: Tensor) -> Tensor:
    """1 for what is seen, 0 for what is hidden, to 0 and a large negative number."""
    return (1.0 - mask.to(torch.float32)) * -1e9


class EncoderLayer(nn.Module):
    """Attention and a GELU network, each normalized after its residual."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.project = nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        q, k, v = (split_heads(f(x), self.heads) for f in (self.query, self.key, self.value))
        x = self.first(x + self.project(merge_heads(attend(q, k, v, bias))))
        return self.second(x + self.narrow(F.gelu(self.wide(x))))


class Bert(nn.Module):
    """An encoder of tokens with positions, kinds and a padding mask, and a pooled output."""

    def __init__(self, width: int = 64, heads: int = 4, layers: int = 2, vocabulary: int = 200) -> None:
        super().__init__()
        self.words, self.kinds = nn.Embedding(vocabulary, width), nn.Embedding(2, width)
        self.places = nn.Embedding(512, width)
        self.register_buffer("position_ids", torch.arange(512).expand(1, -1), persistent=False)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(EncoderLayer(width, heads) for _ in range(layers))
        self.pool = nn.Linear(width, width)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> tuple[Tensor, Tensor]:
        batch, length = input_ids.size()
        places = self.position_ids[:, :length].expand(batch, length)
        x = self.norm(self.words(input_ids) + self.kinds(token_type_ids) + self.places(places))
        mask = attention_mask[:, None, None, :].expand(batch, 1, length, length)
        for layer in self.layers:
            x = layer(x, additive(mask))
        return x, torch.tanh(self.pool(x[:, 0]))


class CachedLayer(nn.Module):
    """A decoder layer in the GPT-2 way: one projection for q, k and v, a triangular mask sliced to size, a cache."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.width = heads, width
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.register_buffer("triangle", torch.tril(torch.ones(1, 1, 128, 128, dtype=torch.bool)), persistent=False)

    def forward(self, x: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = (split_heads(part, self.heads) for part in self.project(self.first(x)).split(self.width, dim=2))
        k, v = torch.cat((key, k), dim=-2), torch.cat((value, v), dim=-2)
        queries, keys = q.size(-2), k.size(-2)
        seen = self.triangle[:, :, keys - queries : keys, :keys]
        scores = torch.matmul(q, k.transpose(-1, -2)) / torch.full([], math.sqrt(v.size(-1)))
        scores = torch.where(seen, scores, torch.full([], -1e9)) + mask
        x = x + self.out(merge_heads(torch.matmul(torch.softmax(scores, dim=-1), v)))
        return x + self.narrow(F.gelu(self.wide(self.second(x)), approximate="tanh")), k, v


class Gpt2(nn.Module):
    """A decoder with a cache: tokens, a mask over old and new ones, and two cache tensors a layer."""

    def __init__(self, width: int = 64, heads: int = 4, layers: int = 2, vocabulary: int = 200) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(128, width)
        self.layers = nn.ModuleList(CachedLayer(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, *cache: Tensor) -> tuple[Tensor, ...]:
        batch, length = input_ids.shape
        past = cache[0].size(-2)
        places = torch.arange(past, past + length, dtype=torch.long).unsqueeze(0).view(-1, length)
        x = self.words(input_ids.view(-1, length)) + self.places(places)
        mask = additive(attention_mask.view(batch, -1)[:, None, None, :])
        present: list[Tensor] = []
        for index, layer in enumerate(self.layers):
            x, k, v = layer(x, cache[2 * index], cache[2 * index + 1], mask)
            present += [k, v]
        x = self.norm(x).view((-1, length, x.size(-1)))
        return self.head(x), *present


class RootNorm(nn.Module):
    """Divide by the root of the mean square."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def buckets(distance: Tensor, both_ways: bool, count: int = 32, furthest: int = 128) -> Tensor:
    """Bucket of a relative position, logarithmic for the far ones (Raffel et al. 2020, section 2.1)."""
    found = torch.zeros_like(distance)
    if both_ways:
        count //= 2
        found = found + (distance > 0).to(torch.long) * count
        distance = torch.abs(distance)
    else:
        distance = -torch.min(distance, torch.zeros_like(distance))
    near = count // 2
    ratio = torch.log(distance.float() / near) / math.log(furthest / near)
    far = near + (ratio * (count - near)).to(torch.long)
    far = torch.min(far, torch.full_like(far, count - 1))
    return found + torch.where(distance < near, distance, far)


class T5Attention(nn.Module):
    """Attention of one sequence to another or to itself, with an optional bias by relative position."""

    def __init__(self, width: int, heads: int, bias: bool, both_ways: bool) -> None:
        super().__init__()
        self.heads, self.both_ways = heads, both_ways
        self.query, self.key, self.value, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.table = nn.Embedding(32, heads) if bias else None

    def position_bias(self, queries: int, keys: int) -> Tensor:
        if self.table is None:
            return torch.zeros((1, self.heads, queries, keys))
        distance = torch.arange(keys, dtype=torch.long)[None, :] - torch.arange(queries, dtype=torch.long)[:, None]
        return self.table(buckets(distance, self.both_ways)).permute([2, 0, 1]).unsqueeze(0)

    def forward(self, x: Tensor, other: Tensor, mask: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        q, k, v = (
            split_heads(f(of), self.heads) for f, of in ((self.query, x), (self.key, other), (self.value, other))
        )
        scores = torch.matmul(q, k.transpose(3, 2))
        if bias is None:
            bias = self.position_bias(x.shape[1], other.shape[1]) + mask
        weights = torch.softmax((scores + bias).float(), dim=-1).type_as(scores)
        return self.out(merge_heads(torch.matmul(weights, v))), bias


class T5Stack(nn.Module):
    """The encoder, or the decoder if it is given the encoder's output."""

    def __init__(self, width: int, heads: int, layers: int, decoder: bool) -> None:
        super().__init__()
        self.decoder = decoder
        self.own = nn.ModuleList(T5Attention(width, heads, i == 0, not decoder) for i in range(layers))
        self.cross = nn.ModuleList(T5Attention(width, heads, False, True) for _ in range(layers if decoder else 0))
        self.wide = nn.ModuleList(nn.Linear(width, 2 * width, bias=False) for _ in range(layers))
        self.narrow = nn.ModuleList(nn.Linear(2 * width, width, bias=False) for _ in range(layers))
        self.norms = nn.ModuleList(RootNorm(width) for _ in range(3 * layers + 1))

    def own_mask(self, x: Tensor, mask: Tensor) -> Tensor:
        batch, length = x.size(0), x.size(1)
        if not self.decoder:
            return additive(mask[:, None, None, :])
        ids = torch.arange(length)
        causal = ids[None, None, :].repeat(batch, length, 1) <= ids[None, :, None]
        return additive(causal[:, None, :, :].to(mask.dtype) * mask[:, None, None, :])

    def forward(self, x: Tensor, mask: Tensor, other: Tensor | None, other_mask: Tensor | None) -> Tensor:
        bias, cross_bias = None, None
        own_mask = self.own_mask(x, mask)
        for i, own in enumerate(self.own):
            h = self.norms[3 * i](x)
            y, bias = own(h, h, own_mask, bias)
            x = x + y
            if other is not None and other_mask is not None:
                hidden = additive(other_mask[:, None, None, :])
                y, cross_bias = self.cross[i](self.norms[3 * i + 1](x), other, hidden, cross_bias)
                x = x + y
            x = x + self.narrow[i](F.relu(self.wide[i](self.norms[3 * i + 2](x))))
        return self.norms[-1](x)


class T5(nn.Module):
    """Encoder and decoder over one vocabulary."""

    def __init__(self, width: int = 64, heads: int = 4, layers: int = 2, vocabulary: int = 200) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.encoder = T5Stack(width, heads, layers, decoder=False)
        self.decoder = T5Stack(width, heads, layers, decoder=True)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, decoder_input_ids: Tensor) -> Tensor:
        encoded = self.encoder(self.words(input_ids), attention_mask, None, None)
        start = torch.ones(decoder_input_ids.size())
        y = self.decoder(self.words(decoder_input_ids), start, encoded, attention_mask)
        return self.head(y)


def rotate(x: Tensor) -> Tensor:
    """The half turn of rotary position embedding (Su et al. 2021)."""
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def repeat_heads(x: Tensor, times: int) -> Tensor:
    """Each of the key heads for ``times`` query heads."""
    batch, heads, length, width = x.shape
    return x[:, :, None, :, :].expand(batch, heads, times, length, width).reshape(batch, heads * times, length, width)


class LlamaLayer(nn.Module):
    """Rotary attention with fewer key heads than query heads, and a gated network."""

    def __init__(self, width: int, heads: int, key_heads: int) -> None:
        super().__init__()
        self.heads, self.key_heads, self.head_width = heads, key_heads, width // heads
        self.query, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.key, self.value = (nn.Linear(width, key_heads * self.head_width, bias=False) for _ in range(2))
        self.gate, self.up = nn.Linear(width, 2 * width, bias=False), nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)
        self.first, self.second = RootNorm(width), RootNorm(width)

    def forward(
        self, x: Tensor, turn: tuple[Tensor, Tensor], key: Tensor, value: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        h = self.first(x)
        batch, length, _ = h.size()
        q = self.query(h).view(batch, length, self.heads, self.head_width).transpose(1, 2)
        k = self.key(h).view(batch, length, self.key_heads, self.head_width).transpose(1, 2)
        v = self.value(h).view(batch, length, self.key_heads, self.head_width).transpose(1, 2)
        cos, sin = (part.unsqueeze(1) for part in turn)
        q, k = q * cos + rotate(q) * sin, k * cos + rotate(k) * sin
        k, v = torch.cat([key, k], dim=2), torch.cat([value, v], dim=2)
        times = self.heads // self.key_heads
        y = attend(q, repeat_heads(k, times), repeat_heads(v, times), mask[:, :, :, : k.shape[-2]])
        x = x + self.out(y.transpose(1, 2).contiguous().reshape(batch, length, -1))
        h = self.second(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h)), k, v


class Llama(nn.Module):
    """A decoder with rotary positions and a cache of few heads."""

    def __init__(
        self, width: int = 64, heads: int = 4, key_heads: int = 2, layers: int = 2, vocabulary: int = 200
    ) -> None:
        super().__init__()
        self.words, self.norm = nn.Embedding(vocabulary, width), RootNorm(width)
        self.layers = nn.ModuleList(LlamaLayer(width, heads, key_heads) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary, bias=False)
        size = width // heads
        self.register_buffer("frequency", 1.0 / (10000.0 ** (torch.arange(0, size, 2).float() / size)))

    def turn(self, places: Tensor) -> tuple[Tensor, Tensor]:
        frequency = self.frequency[None, :, None].float().expand(places.shape[0], -1, 1)
        angles = torch.matmul(frequency, places[:, None, :].float()).transpose(1, 2)
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos(), angles.sin()

    def causal(self, mask: Tensor, past: int, length: int) -> Tensor:
        keys = past + length
        places = torch.arange(past, past + length)
        hidden = torch.full((length, keys), -1e9) * (torch.arange(keys) > places.reshape(-1, 1))
        hidden = hidden[None, None, :, :].expand(mask.shape[0], 1, -1, -1)
        return hidden + additive(mask[:, None, None, :])

    def forward(self, input_ids: Tensor, attention_mask: Tensor, *cache: Tensor) -> tuple[Tensor, ...]:
        past, length = cache[0].shape[-2], input_ids.shape[1]
        places = torch.arange(past, past + length).unsqueeze(0)
        mask = self.causal(attention_mask, past, length)
        x, turn = self.words(input_ids), self.turn(places)
        present: list[Tensor] = []
        for index, layer in enumerate(self.layers):
            x, k, v = layer(x, turn, cache[2 * index], cache[2 * index + 1], mask)
            present += [k, v]
        return self.head(self.norm(x)), *present


class Vit(nn.Module):
    """Patches of an image of any size, positions interpolated to the grid, a class token first."""

    def __init__(self, width: int = 64, heads: int = 4, layers: int = 2, patch: int = 8, grid: int = 4) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, width, grid, grid))
        self.layers = nn.ModuleList(EncoderLayer(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, 10)

    def forward(self, pixels: Tensor) -> Tensor:
        x = self.patches(pixels)
        batch, _, rows, columns = x.shape
        places = F.interpolate(self.places, size=(rows, columns), mode="bilinear", align_corners=False)
        x = (x + places).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(batch, -1, -1), x), dim=1)
        for layer in self.layers:
            x = layer(x, torch.zeros(batch, 1, x.size(1), x.size(1)))
        return self.head(x[:, 0])


class Unet(nn.Module):
    """Convolutions that halve an image twice and bring it back to exactly the size that it had."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.down = nn.ModuleList(
            nn.Conv2d(a, b, 3, stride=s, padding=1) for a, b, s in ((3, width, 1), (width, 16, 2), (16, 32, 2))
        )
        self.up = nn.ConvTranspose2d(32, 16, 2, stride=2)
        self.join = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in ((32, 16), (16 + width, width)))
        self.out = nn.Conv2d(width, 2, 1)

    def forward(self, image: Tensor) -> Tensor:
        one = F.relu(self.down[0](image))
        two = F.relu(self.down[1](one))
        up = self.up(F.relu(self.down[2](two)))
        up = up[:, :, : two.shape[2], : two.shape[3]]
        x = F.relu(self.join[0](torch.cat((up, two), dim=1)))
        x = F.interpolate(x, size=one.shape[2:], mode="nearest")
        x = F.relu(self.join[1](torch.cat((x, one), dim=1)))
        return torch.softmax(self.out(x), dim=1)
