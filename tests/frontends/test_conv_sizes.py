"""The shape code of exported convolutions and pools comes out as plain sizes."""

import pytest

from egshape.dims import const, floordiv, maximum, symbol
from egshape.frontends.stablehlo import read

jax = pytest.importorskip("jax")
lax, export = jax.lax, pytest.importorskip("jax.export")
B, H, W = symbol("b"), symbol("h"), symbol("w")


def exported(function, shape="b,h,w,3", constraints=("h>=8", "w>=8"), weights=()):
    scope = export.SymbolicScope(constraints)
    specs = [jax.ShapeDtypeStruct(export.symbolic_shape(shape, scope=scope), "float32")]
    specs += [jax.ShapeDtypeStruct(size, "float32") for size in weights]
    return read(export.export(jax.jit(function))(*specs).mlir_module(), "m")


def conv(x, w, stride, padding, dilation=1):
    numbers = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(
        x, w, (stride,) * 2, padding, rhs_dilation=(dilation,) * 2, dimension_numbers=numbers
    )


def pool(x, window, stride, padding):
    return lax.reduce_window(x, -float("inf"), lax.max, (1, window, window, 1), (1, stride, stride, 1), padding)


def sizes(graph):
    """All sizes in types and attributes."""
    found = set()
    for op in graph.body.walk():
        found.update(dim for value in op.results for dim in value.type.shape or ())
        found.update(dim for each in op.attrs.values() if isinstance(each, tuple) for dim in each)
    return {dim for dim in found if hasattr(dim, "terms")}


def assert_plain(graph, names):
    """No size has more than 8 terms or a symbol of its own."""
    for dim in sizes(graph):
        assert len(dim.terms) <= 8, str(dim)
        assert dim.symbols() <= names, str(dim)


def result(graph):
    return graph.body.results[0].type.dims


@pytest.mark.parametrize("stride", [2, 3])
@pytest.mark.parametrize("dilation", [1, 2])
def test_convolution_that_keeps_the_size(stride, dilation):
    graph = exported(lambda x, w: conv(x, w, stride, "SAME", dilation), weights=[(3, 3, 3, 8)])
    assert_plain(graph, {"b", "h", "w"})
    assert result(graph) == (B, -((-H) // stride), -((-W) // stride), const(8))


@pytest.mark.parametrize(("window", "stride"), [(2, 2), (3, 2), (3, 3)])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_pool(window, stride, padding):
    graph = exported(lambda x: pool(x, window, stride, padding))
    assert_plain(graph, {"b", "h", "w"})
    for found, size in zip(result(graph)[1:3], (H, W), strict=True):
        wanted = -((-size) // stride) if padding == "SAME" else floordiv(maximum(size - window + stride, 0), stride)
        values = [(found.evaluate({"h": n, "w": n}), wanted.evaluate({"h": n, "w": n})) for n in range(8, 40)]
        assert all(one == two for one, two in values)


def test_chain_of_halvings():
    def network(x, *weights):
        for w in weights:
            x = pool(conv(x, w, 2, "SAME"), 3, 2, "SAME")
        return x

    graph = exported(network, weights=[(3, 3, 3, 8), (3, 3, 8, 8), (3, 3, 8, 8)])
    assert_plain(graph, {"b", "h", "w"})
    assert result(graph)[1:3] == (-((-H) // 64), -((-W) // 64))


def test_size_that_is_derived_from_an_axis():
    graph = exported(
        lambda x, w: pool(conv(x, w, 2, "SAME"), 2, 2, "SAME"), "b,2*h+1,3*w,3", ("h>=4", "w>=4"), [(3, 3, 3, 8)]
    )
    assert_plain(graph, set().union(*(dim.symbols() for dim in graph.body.args[0].type.dims)))


def test_negative_numerators_and_remainders():
    def network(x):
        h, w = x.shape[1:3]
        padded = jax.numpy.pad(x, ((0, 0), (0, -h % 4), (0, (7 - w) % 3), (0, 0)))
        return jax.numpy.zeros((h % 4 + 1, (h - 1) // 2, -((1 - w) // 3))), padded

    graph = exported(network)
    assert_plain(graph, {"b", "h", "w"})
    assert result(graph) == (H % 4 + 1, (H - 1) // 2, -((1 - W) // 3))
    assert graph.body.results[1].type.dims[1:3] == (4 * -((-H) // 4), W + (7 - W) % 3)
