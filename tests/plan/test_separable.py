"""A depthwise convolution and the pointwise one that alone reads it are one kernel."""

import numpy as np
import pytest

from egshape.adapters.native import compile_function
from tests.fuzz.differential import graph_of
from tests.plan.test_channels import Images, image
from tests.plan.test_framed import SHAPES, check, labels, relu


def pair(b, stride=1, residual=False):
    x = relu(b, b.conv(b.input(), 16))
    y = b.conv(relu(b, b.conv(x, 16, 3, stride, groups=16)), 16, 1)
    return b.b.one("add", [y, x]) if residual else y


@pytest.mark.parametrize(("stride", "residual"), [(1, False), (2, False), (1, True)])
def test_they_are_one_kernel(stride, residual, monkeypatch):
    b = Images()
    graph = graph_of(b.b, b.fold(b.conv(pair(b, stride, residual), 20), (2, 3)))
    assert labels(graph).count("separable") == 1
    check(graph, monkeypatch, (*SHAPES, (0, 3, 5, 5), (1, 3, 5, 40)))


def test_another_reader_keeps_them_apart(monkeypatch):
    b = Images()
    x = b.conv(b.conv(b.input(), 16), 16, 3, groups=16)
    graph = graph_of(b.b, b.fold(b.conv(b.conv(x, 16, 1), 20), (2, 3)), b.fold(x, (2, 3)))
    assert "separable" not in labels(graph)
    check(graph, monkeypatch)


def test_the_same_bits_with_any_number_of_threads():
    b = Images()
    graph = graph_of(b.b, b.fold(b.conv(pair(b, residual=True), 20), (2, 3)))
    one, two = compile_function(graph, 1), compile_function(graph, 2)
    x = image(3, 3, 61, 47)
    np.testing.assert_array_equal(one(x), two(x))
