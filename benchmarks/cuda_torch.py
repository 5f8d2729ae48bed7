"""What ``benchmarks.cuda`` measures beside egshape: the same functions in torch, on arrays of the device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Function = Callable[..., Any]


def functions(torch: Any, kind: str, options: Mapping[str, int]) -> Function:
    """The counterpart of a case; its weights are random, of the same shapes."""
    return {"chain": _chain, "softmax": _softmax, "layernorm": _layernorm, "columns": _columns,
            "transpose": _transpose, "encoder": _encoder, "decoder": _decoder}[kind](torch, options)


def _chain(torch: Any, _: Mapping[str, int]) -> Function:
    def run(x: Any) -> Any:
        y = x
        for _ in range(4):
            y = torch.tanh(y) * x + x
        return y
    return run


def _softmax(torch: Any, _: Mapping[str, int]) -> Function:
    return lambda x, y: torch.softmax(x + y, -1)


def _layernorm(torch: Any, options: Mapping[str, int]) -> Function:
    gain, bias = (torch.randn(options["width"], device="cuda") for _ in range(2))
    return lambda x: torch.nn.functional.gelu(torch.nn.functional.layer_norm(x, gain.shape, gain, bias))


def _columns(torch: Any, _: Mapping[str, int]) -> Function:
    return lambda x: x.sum(0)


def _transpose(torch: Any, _: Mapping[str, int]) -> Function:
    return lambda x: x.t().contiguous()


def _layer(torch: Any, width: int) -> Sequence[Any]:
    """Weights and biases of q, k, v, the output and the two layers of the feed-forward part."""
    shapes = [(width, width)] * 4 + [(width, 4 * width), (4 * width, width)]
    return [(torch.randn(m, n, device="cuda") / m**0.5, torch.randn(n, device="cuda") * 0.1) for m, n in shapes]


def _linear(torch: Any, x: Any, layer: Any) -> Any:
    return torch.addmm(layer[1], x.reshape(-1, x.shape[-1]), layer[0]).reshape(*x.shape[:-1], layer[0].shape[1])


def _heads(x: Any, heads: int) -> Any:
    return x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def _encoder(torch: Any, options: Mapping[str, int]) -> Function:
    width, heads = options["width"], options["heads"]
    layers = [_layer(torch, width) for _ in range(options["layers"])]
    f = torch.nn.functional

    def run(x: Any) -> Any:
        for q, k, v, o, up, down in layers:
            found = f.scaled_dot_product_attention(*(_heads(_linear(torch, x, each), heads) for each in (q, k, v)))
            x = f.layer_norm(x + _linear(torch, found.transpose(1, 2).reshape(x.shape), o), (width,))
            x = f.layer_norm(x + _linear(torch, f.gelu(_linear(torch, x, up)), down), (width,))
        return x
    return run


def _decoder(torch: Any, options: Mapping[str, int]) -> Function:
    width, heads = options["width"], options["heads"]
    layers = [_layer(torch, width) for _ in range(options["layers"])]
    f = torch.nn.functional

    def run(x: Any, *caches: Any) -> Any:
        new = []
        for number, (q, k, v, o, up, down) in enumerate(layers):
            normal = f.layer_norm(x, (width,))
            query, key, value = (_heads(_linear(torch, normal, each), heads) for each in (q, k, v))
            keys = torch.cat([caches[2 * number], key], 2)
            values = torch.cat([caches[2 * number + 1], value], 2)
            found = f.scaled_dot_product_attention(query, keys, values)
            x = x + _linear(torch, found.transpose(1, 2).reshape(x.shape), o)
            x = x + _linear(torch, f.gelu(_linear(torch, f.layer_norm(x, (width,)), up)), down)
            new += [keys, values]
        return f.layer_norm(x, (width,)), *new
    return run
