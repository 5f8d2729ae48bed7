"""Results lie padded where the convolutions behind them want them so."""

import numpy as np
import pytest

from egshape.ir.interpret import interpret
from egshape.plan.ir.program import Run
from egshape.plan.targets import plan
from tests.fuzz.differential import graph_of
from tests.lower.checking import call, compiled
from tests.plan.test_channels import Images, image

SHAPES = ((2, 3, 9, 6), (1, 3, 1, 1), (3, 3, 4, 17), (1, 3, 2, 1), (2, 3, 1, 7))


def labels(graph):
    return [step.kernel.label for step in plan(graph).steps if isinstance(step, Run)]


def check(graph, monkeypatch, shapes=SHAPES):
    monkeypatch.setenv("EGSHAPE_REDZONES", "1")
    function = compiled(graph)
    for shape in shapes:
        array = image(*shape)
        for one, two in zip(call(function, [array]), interpret(graph, [array]), strict=True):
            np.testing.assert_allclose(one, two, 1e-4, 1e-5 * np.abs(two).max(initial=1))


def relu(b, x):
    return b.b.one("maximum", [x, b.spread(b.constant(0), x, ())])


def test_only_the_input_is_copied(monkeypatch):
    b = Images()
    x = relu(b, b.conv(b.input(), 16))
    x = relu(b, b.conv(x, 16, 3, 2))
    x = relu(b, b.conv(b.conv(x, 16, 5, groups=16), 48))
    graph = graph_of(b.b, b.fold(b.conv(x, 20), (2, 3)))
    assert labels(graph).count("pad") == 1 and labels(graph).count("frame") == 4
    check(graph, monkeypatch)


def test_a_residual_and_a_shortcut_read_it_too(monkeypatch):
    b = Images()
    x = relu(b, b.conv(b.input(), 16))
    y = b.b.one("add", [x, b.conv(relu(b, b.conv(x, 16)), 16)])
    z = b.b.one("add", [b.conv(y, 32, 1, 2), b.conv(b.conv(y, 32, 5, 2), 32)])
    graph = graph_of(b.b, b.fold(b.conv(z, 16), (2, 3)))
    assert labels(graph).count("pad") == 1
    check(graph, monkeypatch)


def test_the_places_of_a_transposed_one(monkeypatch):
    """Each kind of places within its dilation is written to the padded result, those that no tap meets too."""
    b = Images()
    x = b.conv(b.input(), 16)
    x = b.conv(b.conv(x, 16, 3, base=2), 16)
    x = b.conv(b.conv(x, 16, 1, base=3), 16)
    graph = graph_of(b.b, b.fold(x, (2, 3)))
    assert labels(graph).count("frame") == 2
    check(graph, monkeypatch)


@pytest.mark.parametrize("reader", ["an output", "a 1x1 convolution", "a window", "itself as a kernel"])
def test_what_else_reads_it_wants_it_as_it_is(reader, monkeypatch):
    b = Images()
    x = b.conv(b.conv(b.input(), 16), 16)
    y = b.conv(x, 16)
    if reader == "an output":
        graph = graph_of(b.b, x, b.fold(y, (2, 3)))
    elif reader == "a 1x1 convolution":
        graph = graph_of(b.b, b.fold(b.b.one("add", [y, b.conv(x, 16, 1)]), (2, 3)))
    elif reader == "a window":
        graph = graph_of(b.b, b.fold(y, (2, 3)), b.fold(b.window(x), (2, 3)))
    else:
        graph = graph_of(b.b, b.fold(y, (2, 3)), b.fold(x, (0, 2, 3)))
    assert labels(graph).count("frame") == 1  # the first one's
    check(graph, monkeypatch)


@pytest.mark.parametrize("axes", [("l",), ("h", "w", "d")])
def test_lines_and_volumes(axes, monkeypatch):
    b = Images(axes)
    x = b.conv(b.conv(b.conv(b.input(), 16), 16, 3, 2), 33)
    graph = graph_of(b.b, b.fold(x, tuple(range(2, 2 + len(axes)))))
    assert labels(graph).count("frame") == 2
    check(graph, monkeypatch, [(2, 3, *[size] * len(axes)) for size in (1, 2, 5)])
