"""ATen ops against eager, at the sizes that they are exported with and, with open axes, at 0 and 1."""

from __future__ import annotations

import math
from typing import Any

import pytest

import egshape
from egshape.errors import CheckFailed
from egshape.ir.interpret import interpret
from tests.frontends.torch.running import Call, loaded, same, torch

F = torch.nn.functional
AUTO = torch.export.Dim.AUTO


def rand(*shape: int) -> Any:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(sum(shape))) * 4 - 2


def ints(*shape: int, high: int = 5) -> Any:
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(1))


def _assigned(x: Any) -> Any:
    out = x.clone()
    out[:, 1:3] = 7.0
    out[0] = out[-1] * 2
    return out


UNARY = {
    "exp": torch.exp,
    "log1p": lambda x: torch.log1p(x.abs()),
    "sqrt of integers": lambda x: torch.sqrt(x.to(torch.int32).abs()),
    "round": torch.round,
    "trunc": torch.trunc,
    "sign": torch.sign,
    "sign of NaN": lambda x: torch.sign(x / 0 * 0),
    "reciprocal": torch.reciprocal,
    "digamma at its poles": lambda x: torch.digamma(torch.cat([x.round().abs(), -x.round().abs(), x])),
    "log2": lambda x: torch.log2(x.abs() + 1),
    "isnan": lambda x: torch.isnan(x.log()),
    "isinf": lambda x: torch.isinf(1 / torch.relu(x)),
    "logical_not": torch.logical_not,
    "bitwise_not": lambda x: ~x.to(torch.int32),
    "gelu": F.gelu,
    "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "elu": lambda x: F.elu(x, 0.7),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "hardswish": F.hardswish,
    "softplus": F.softplus,
    "mish": F.mish,
    "clamp": lambda x: x.clamp(-1, 1),
    "pow 3": lambda x: x**3,
    "pow 0.5": lambda x: x.abs() ** 0.5,
    "pow of data": lambda x: x.abs() ** x,
    "2 to the power": lambda x: 2.0**x,
    "half": lambda x: (x.half() * 3).sum(-1),
    "bf16": lambda x: F.softmax(x.bfloat16(), -1).float(),
    "to bool": lambda x: x.round().bool(),
    "to int": lambda x: x.to(torch.int64),
    "rsub": lambda x: torch.rsub(x, 2, alpha=3),
    "floor division": lambda x: torch.floor_divide(x, 0.7),
    "floor division of integers": lambda x: x.to(torch.int64) // 3,
    "trunc division": lambda x: torch.div(x, -0.7, rounding_mode="trunc"),
    "true division of integers": lambda x: x.to(torch.int64) / 3,
    "remainder": lambda x: x % -0.7,
    "remainder of integers": lambda x: x.to(torch.int64) % -2,
    "fmod": lambda x: torch.fmod(x, 0.7),
    "integer plus float": lambda x: x.to(torch.int64) + 0.5,
    "where": lambda x: torch.where(x > 0, x, 0.0),
    "masked_fill": lambda x: x.masked_fill(x > 0, -math.inf),
    "softmax": lambda x: x.softmax(-1),
    "softmax of -inf": lambda x: (x * -math.inf).softmax(-1),
    "log_softmax": lambda x: x.log_softmax(0),
    "logsumexp": lambda x: x.logsumexp(-1),
    "sum": lambda x: x.sum(),
    "sum of booleans": lambda x: (x > 0).sum(-1, keepdim=True),
    "mean": lambda x: x.mean((0, 1)),
    "var": lambda x: x.var(-1),
    "std": lambda x: x.std(0, keepdim=True),
    "var_mean": lambda x: torch.var_mean(x, -1, correction=0),
    "prod": lambda x: x.prod(1),
    "any": lambda x: (x > 1).any(-1),
    "all": lambda x: (x > -3).all(),
    "cumsum": lambda x: x.cumsum(1),
    "cumprod": lambda x: x.cumprod(0),
    "norm": lambda x: x.norm(dim=-1),
    "tril": lambda x: x.tril(-1),
    "triu": lambda x: x.triu(1),
    "flip": lambda x: x.flip(0, 1),
    "roll": lambda x: x.roll(2, 1),
    "roll flat": lambda x: x.roll(-1),
    "repeat": lambda x: x.repeat(2, 1, 3),
    "repeat_interleave": lambda x: x.repeat_interleave(2, 1),
    "unfold": lambda x: x[:, :1].expand(-1, 3),
    "stack": lambda x: torch.stack([x, x + 1], 1),
    "cat of two dtypes": lambda x: torch.cat([x, x.to(torch.int64)], 0),
    "pad": lambda x: F.pad(x, (1, 2, -1, 1), value=3.0),
    "slices": lambda x: x[1:, ::2],
    "negative slice": lambda x: x[:, -2:],
    "flatten": lambda x: x.flatten(),
    "unflatten": lambda x: x[:, :4].unflatten(1, (2, -1)),
    "sort": lambda x: x.sort(-1, descending=True),
    "sort of NaN": lambda x: x.log().sort(0),
    "nonzero": lambda x: (x > 0).nonzero(),
    "masked_select": lambda x: x[x > 0],
    "index by two": lambda x: x[torch.tensor([0, 1]), torch.tensor([1, -1])],
    "index by mask of rows": lambda x: x[x[:, 0] > 0],
    "assignment by mask": lambda x: x.clone().masked_fill_(x > 1, 0.0),
    "sizes as numbers": lambda x: x * x.shape[0] + x.shape[1] // 2,
    "arange": lambda x: torch.arange(x.shape[1]) + x,
    "eye": lambda x: x @ torch.eye(x.shape[1]),
    "diagonal": lambda x: x.diagonal(1),
    "in place": lambda x: x.clone().add_(1).mul_(2),
    "assignment of a part": _assigned,
}


@pytest.mark.long_but("gelu", "remainder of integers", "nonzero", "assignment of a part")
@pytest.mark.parametrize("name", UNARY)
def test_ops_of_one_matrix_equal_eager(name: str) -> None:
    graph = loaded(UNARY[name], (rand(4, 6),), ((0, 1),) if name != "unflatten" else ((0,),))
    assert graph.metadata["host_calls"] == ()
    for sizes in ((4, 6), (3, 5)) if name != "unflatten" else ((4, 6), (1, 6)):
        same(graph, UNARY[name], (rand(*sizes),))


BINARY = {
    "add": lambda x, y: torch.add(x, y, alpha=2),
    "atan2": torch.atan2,
    "compare": lambda x, y: x <= y,
    "minimum": torch.minimum,
    "logical_xor": torch.logical_xor,
    "copysign": torch.copysign,
}


@pytest.mark.parametrize("name", BINARY)
def test_ops_of_two_operands_broadcast(name: str) -> None:
    args = (rand(3, 5), rand(5))
    same(loaded(BINARY[name], args), BINARY[name], args)


def test_a_broadcast_axis_is_1_when_it_is() -> None:
    def add(x: Any, y: Any) -> Any:
        return x + y

    graph = loaded(add, (rand(3, 1), rand(3, 5)), ((0,), (0, 1)))
    for rows, columns in ((3, 5), (1, 1), (0, 4), (2, 0)):
        same(graph, add, (rand(rows, 1), rand(rows, columns)))


INDEXED = {
    "embedding": (F.embedding, (ints(2, 3, high=7), rand(7, 4))),
    "index_select": (lambda x, i: x.index_select(1, i), (rand(3, 5), ints(4))),
    "gather": (lambda x, i: x.gather(1, i), (rand(3, 5), ints(2, 4))),
    "scatter": (lambda x, i, y: x.scatter(1, i, y), (rand(3, 5), torch.tensor([[0, 2], [1, 4]]), rand(2, 2))),
    "scatter_add": (lambda x, i, y: x.scatter_add(0, i, y), (rand(3, 4), ints(2, 4, high=3), rand(2, 4))),
    "scatter_reduce": (
        lambda x, i, y: x.scatter_reduce(1, i, y, "amax"),
        (rand(3, 5), ints(3, 5), rand(3, 5)),
    ),
    "index_put": (lambda x, i, y: x.index_put((i,), y), (rand(4, 3), torch.tensor([2, 0]), rand(2, 3))),
    "index_add": (lambda x, i, y: x.index_add(0, i, y), (rand(4, 3), torch.tensor([2, 2]), rand(2, 3))),
    "index_copy": (lambda x, i, y: x.index_copy(1, i, y), (rand(3, 4), torch.tensor([3, 1]), rand(3, 2))),
    "index apart": (lambda x, i: x[i, :, i], (rand(3, 4, 5), ints(2, high=3))),
    "topk": (lambda x: x.topk(2, 1), (rand(3, 5),)),
    "max": (lambda x: x.max(1), (rand(3, 5),)),
    "argmin": (lambda x: x.argmin(), (rand(3, 5),)),
}


@pytest.mark.long_but("index_put", "topk")
@pytest.mark.parametrize("name", INDEXED)
def test_ops_by_place_equal_eager(name: str) -> None:
    function, args = INDEXED[name]
    graph = loaded(function, args)
    assert graph.metadata["host_calls"] == ()
    same(graph, function, args)


def test_an_index_outside_is_refused_as_by_eager() -> None:
    function, args = INDEXED["embedding"]
    with pytest.raises(CheckFailed, match="index is out of range"):
        interpret(loaded(function, args), [ints(2, 3).numpy() + 7, args[1].numpy()])


IMAGES = {
    "convolution": (torch.nn.Conv2d(3, 4, 3, 2, 1, groups=1), (2, 3, 7, 8)),
    "depthwise, dilated": (torch.nn.Conv2d(4, 4, 3, 1, 2, 2, groups=4), (2, 4, 7, 8)),
    "transposed": (torch.nn.ConvTranspose2d(4, 6, 3, 2, 1, 1, groups=2), (2, 4, 5, 6)),
    "max_pool": (torch.nn.MaxPool2d(3, 2, 1), (2, 3, 7, 8)),
    "max_pool, ceil": (torch.nn.MaxPool2d(3, 2, ceil_mode=True), (2, 3, 8, 8)),
    "max_pool with places": (torch.nn.MaxPool2d(2, 2, return_indices=True), (2, 3, 6, 8)),
    "avg_pool": (torch.nn.AvgPool2d(3, 2, 1), (2, 3, 7, 8)),
    "avg_pool, ceil, without padding": (torch.nn.AvgPool2d(3, 2, 1, True, False), (2, 3, 8, 8)),
    "adaptive": (torch.nn.AdaptiveAvgPool2d((3, 2)), (2, 3, 7, 8)),
    "batch_norm in training": (torch.nn.BatchNorm2d(3, track_running_stats=False), (2, 3, 5, 5)),
    "instance_norm": (torch.nn.InstanceNorm2d(3), (2, 3, 5, 5)),
    "group_norm": (torch.nn.GroupNorm(2, 4), (2, 4, 5, 5)),
    "layer_norm": (torch.nn.LayerNorm((5, 5)), (2, 4, 5, 5)),
    "rms_norm": (torch.nn.RMSNorm(5), (2, 4, 5, 5)),
    "nearest": (torch.nn.Upsample(scale_factor=2.0), (2, 3, 4, 5)),
    "nearest to a size": (torch.nn.Upsample((7, 3)), (2, 3, 4, 5)),
    "bilinear": (torch.nn.Upsample(scale_factor=1.5, mode="bilinear"), (2, 3, 4, 6)),
    "bilinear by corners": (torch.nn.Upsample((7, 1), mode="bilinear", align_corners=True), (2, 3, 4, 5)),
    "bicubic": (torch.nn.Upsample(scale_factor=2.0, mode="bicubic"), (1, 2, 4, 5)),
    "pixel_shuffle": (torch.nn.PixelShuffle(2), (2, 4, 3, 3)),
    "reflection": (torch.nn.ReflectionPad2d(2), (2, 3, 4, 5)),
}


@pytest.mark.long_but("convolution", "bilinear")
@pytest.mark.parametrize("name", IMAGES)
def test_ops_of_images_equal_eager(name: str) -> None:
    model, shape = IMAGES[name]
    graph = loaded(model, (rand(*shape),), ((0,),))
    assert graph.metadata["host_calls"] == ()
    for batch in (shape[0], 1):
        same(graph, model, (rand(batch, *shape[1:]),))


ATTENTION = {
    "plain": ({}, None),
    "causal": ({"is_causal": True}, None),
    "scaled": ({"scale": 0.3}, None),
    "booleans": ({}, torch.tensor([[True] * 6, [False] * 6, [True, False] * 3])),
    "numbers": ({}, rand(2, 1, 3, 6)),
}


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
@pytest.mark.parametrize("factor", [2.3, 0.7, 1.1, 1.5, 2.05])
def test_sizes_times_a_factor_are_rounded_as_in_f64(mode: str, factor: float) -> None:
    """10 x 2.3 is 23, 100 x 2.3 is 229; sizes that do not change are not resized, whatever the factor is."""

    def resize(x: Any) -> Any:
        return F.interpolate(x, scale_factor=factor, mode=mode)

    compiled = egshape.compile(loaded(resize, [rand(1, 1, 61, 60)], [[2]]))
    for height in (4, 5, 9, 10, 11, 20, 21, 60, 100, 101):
        x = rand(1, 1, height, 60)
        wanted, found = resize(x), torch.as_tensor(compiled(x))
        assert found.shape == wanted.shape
        assert torch.allclose(found, wanted, 1e-4, 1e-5)


@pytest.mark.long_but("booleans")
@pytest.mark.parametrize("name", ATTENTION)
def test_attention_equals_eager(name: str) -> None:
    options, mask = ATTENTION[name]

    def attend(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, mask, **options)

    args = (rand(2, 4, 3, 8), rand(2, 4, 6, 8), rand(2, 4, 6, 8))
    same(loaded(attend, args), attend, args)


def test_attention_of_grouped_heads_equals_eager() -> None:
    def attend(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    args = (rand(2, 4, 5, 8), rand(2, 2, 5, 8), rand(2, 2, 5, 8))
    graph = loaded(attend, args, ((0, 2), (0, 2), (0, 2)))
    for batch, length in ((2, 5), (1, 1), (3, 7)):
        same(graph, attend, (rand(batch, 4, length, 8), rand(batch, 2, length, 8), rand(batch, 2, length, 8)))
    for queries, keys, heads in ((2, 1, 2), (1, 2, 2), (2, 2, 1)):  # batches broadcast, values are shared by keys
        args = (rand(queries, 4, 5, 8), rand(keys, 2, 5, 8), rand(keys, heads, 5, 8))
        same(loaded(attend, args), attend, args)


RECURRENT = {
    "lstm": torch.nn.LSTM(3, 4, 2, bidirectional=True),
    "lstm, batch first": torch.nn.LSTM(3, 4, batch_first=True, bias=False),
    "gru": torch.nn.GRU(3, 4, 2, bidirectional=True),
    "rnn": torch.nn.RNN(3, 4, nonlinearity="relu"),
}


@pytest.mark.long_but("gru")
@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers_are_loops(name: str) -> None:
    model = RECURRENT[name]
    graph = loaded(model, (rand(5, 2, 3),))
    assert sum(op.name == "while" for op in graph.ops) == (4 if "bid" in repr(model) else 1)
    same(graph, model, (rand(5, 2, 3),))


# -- sizes in numbers, conditions and guards ---------------------------------------------------------------------------

SIZED = {
    "whether a size is large": lambda x: torch.full((2,), x.shape[0] > 6),
    "where a size is large": lambda x: torch.where(torch.tensor(x.shape[0] > 6), x, -x),
    "times whether a size is large": lambda x: x * (x.shape[0] > 6),
    "bits of a size": lambda x: x * (x.shape[0] & 3) + (x.shape[0] | 8),
    "a size shifted": lambda x: x * (x.shape[0] << 2) + (x.shape[0] >> 1),
    "how far a size is from 6": lambda x: x * abs(6 - x.shape[0]),
    "half a size rounded": lambda x: x.new_ones(round(x.shape[0] / 2)),
    "two to the power": lambda x: x.new_zeros(2 ** (x.shape[0] // 4)),
}


@pytest.mark.parametrize("name", SIZED)
def test_sizes_in_numbers(name: str) -> None:
    graph = loaded(SIZED[name], [rand(5, 2)], [[0]])
    for rows in (5, 7, 8):
        x = rand(rows, 2)
        try:
            found = egshape.compile(graph, target="interpret")(x)
        except CheckFailed:  # torch took the example's way
            with pytest.raises(AssertionError, match="Guard failed"):
                torch.export.export(Call(SIZED[name]), (rand(5, 2),), dynamic_shapes=(({0: AUTO},),)).module()(x)
            continue
        assert torch.equal(torch.as_tensor(found), SIZED[name](x))


GUARDED = {
    "a quotient": (lambda x: x * 2 if x.shape[0] / 2 > 2 else x, (5, 8), (3, 4)),
    "a root": (lambda x: x.new_ones(int(x.shape[0] ** 0.5)), (5, 8), (3, 33)),
    "a share": (lambda x: x * int(x.shape[0] * 0.7), (5,), (7, 9)),
    "a power": (lambda x: x * 2 if 2 ** x.shape[0] > 10 else x, (5, 4), (2, 3)),
    "bits": (lambda x: x * 2 if x.shape[0] & 1 == 1 else x, (5, 7), (4, 6)),
    "a whole quotient": (lambda x: x * 2 if (x.shape[0] / 2).is_integer() else x, (5, 7), (4, 6)),
}


@pytest.mark.parametrize("name", GUARDED)
def test_other_sizes_than_a_program_was_exported_for_are_refused(name: str) -> None:
    function, right, wrong = GUARDED[name]
    compiled = egshape.compile(loaded(function, [rand(5, 2)], [[0]]), target="interpret")
    for rows in right:
        assert torch.equal(torch.as_tensor(compiled(rand(rows, 2))), function(rand(rows, 2)))
    for rows in wrong:
        with pytest.raises(CheckFailed):
            compiled(rand(rows, 2))


CORNERS: dict[str, tuple[Any, Any]] = {
    "pool beside infinity": (lambda x: F.adaptive_avg_pool1d(x, 2), torch.tensor([[[1.0, 1.0, 1.0, math.inf]]])),
    "pool of nothing": (lambda x: F.adaptive_avg_pool2d(x, 1), torch.zeros(2, 3, 0, 4)),
    "bytes between pixels": (
        lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
        torch.tensor([[[[0, 200]]]], dtype=torch.uint8),
    ),
    "f64 between points": (lambda x: F.interpolate(x, size=5, mode="linear"), rand(1, 2, 3).double()),
    "places of integers": (lambda x: F.max_pool2d(x, 2, return_indices=True)[1], ints(1, 1, 4, 4)),
    "f16 in a batch": (F.instance_norm, rand(2, 3, 5).half()),
    "a mean in bf16": (lambda x: x / x.shape[0], torch.ones(257, 2, dtype=torch.bfloat16)),
    "f16 cubed": (lambda x: x**3, rand(200).half()),
    "f16 times a scalar": (lambda x: x * torch.tensor(0.1), rand(200).half()),
}


@pytest.mark.parametrize("name", CORNERS)
def test_corners_equal_eager(name: str) -> None:
    function, x = CORNERS[name]
    wanted = function(x)
    found = torch.as_tensor(egshape.compile(loaded(function, [x]))(x))
    assert found.dtype == wanted.dtype
    torch.testing.assert_close(found, wanted, rtol=1e-12 if x.dtype == torch.float64 else 2e-3, atol=0, equal_nan=True)
