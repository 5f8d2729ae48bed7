"""Results whose size only a branch or a composite tells."""

import numpy as np
import pytest

import egshape
from egshape.dims import const, floordiv, symbol
from egshape.errors import EgshapeError
from egshape.ir.builder import BlockBuilder
from egshape.runtime import RunError, load
from tests.fuzz.differential import argument, constant, data, graph_of
from tests.lower.checking import check, compiled

N, M = symbol("n"), symbol("m")
SIZES = ((0, 0), (0, 5), (1, 0), (1, 1), (2, 3), (7, 33), (40, 3))


def part(b, x, limit):
    """The first elements of x."""
    limits = (limit, *x.type.dims[1:])
    return b.one(
        "slice", [x], {"starts": (const(0),) * len(limits), "limits": limits, "strides": (const(1),) * len(limits)}
    )


def choose(b, flag, *results):
    """An if: each of ``results`` makes the values of one branch."""
    regions = []
    for make in results:
        inner = b.child()
        regions.append(inner.finish(make(inner)))
    return b.add("if" if len(results) == 2 else "case", [flag], regions=regions)


def prefix(b, x, length):
    """The first ``length`` elements of x, where ``length`` is an i64 scalar, as a composite."""
    inner = b.child()
    y, count = inner.arg(None, x.type.dtype, x.type.shape), inner.arg(None, "i64", ())
    (size,), needs = inner.sizes("count", inner.one("reshape", [count], {"shape": (const(1),)}), "shape")
    limits = (size, *y.type.dims[1:])
    cut = inner.add(
        "slice",
        [y],
        {"starts": (const(0),) * len(limits), "limits": limits, "strides": (const(1),) * len(limits)},
        requires=needs,
    )
    (found,) = b.add("composite", [x, length], {"name": "test.Prefix"}, regions=(inner.finish(cut),))
    return found


def flags(n, m):
    return ([data("f32", (n, m), 1), data("f32", (n, m), 2), np.array(flag)] for flag in (True, False))


@pytest.mark.parametrize("zones", ["", "1"])
@pytest.mark.parametrize("apart", [False, True])
def test_branches_of_different_sizes(apart, zones, monkeypatch):
    """The result is an output, or read by another kernel."""
    monkeypatch.setenv("EGSHAPE_REDZONES", zones)
    b = BlockBuilder()
    x, y, flag = argument(b, "x", "f32", [N, M]), argument(b, "y", "f32", [N, M]), argument(b, "flag", "i1", [])
    found, total = choose(
        b,
        flag,
        lambda inner: [part(inner, x, floordiv(N, 2)), x],
        lambda inner: [inner.one("concatenate", [y, inner.one("negate", [x])], {"dim": 0}), y],
    )
    assert found.type.dims[0] not in (N, floordiv(N, 2)) and total.type.dims == (N, M)
    results = [found, total] if apart else [b.one("tanh", [b.one("transpose", [found], {"permutation": (1, 0)})])]
    check(graph_of(b, *results), *(case for n, m in SIZES for case in flags(n, m)), tolerance=1e-5)


def test_a_case_of_three_nested_in_an_if():
    b = BlockBuilder()
    x, flag, index = argument(b, "x", "f32", [N]), argument(b, "flag", "i1", []), argument(b, "index", "i32", [])

    def cases(inner):
        return [
            choose(
                inner,
                index,
                lambda c: [part(c, x, floordiv(N, 2))],
                lambda c: [c.one("tanh", [x])],
                lambda c: [c.one("concatenate", [x, x, x], {"dim": 0})],
            )[0]
        ]

    (found,) = choose(b, flag, cases, lambda inner: [constant_of(inner, [])])
    twice = b.one("concatenate", [found, found], {"dim": 0})
    check(
        graph_of(b, twice),
        *(
            [data("f32", (n,), 1), np.array(flag), np.int32(at)]
            for n in (0, 1, 2, 9)
            for flag in (True, False)
            for at in (-1, 0, 1, 2, 5)
        ),
        tolerance=1e-5,
    )


def constant_of(b, numbers):
    return b.one("constant", (), {"value": np.array(numbers, np.float32)})


def test_a_composite_whose_operand_tells_the_size():
    b = BlockBuilder()
    x, length = argument(b, "x", "f32", [N, M]), argument(b, "length", "i64", [])
    found = prefix(b, x, length)
    sums = b.one("add", [b.one("tanh", [found]), found])
    function = check(
        graph_of(b, found, sums),
        *([data("f32", (n, m), 1), np.int64(at)] for n, m in SIZES for at in {0, n // 2, n}),
        tolerance=1e-5,
    )
    with pytest.raises(EgshapeError):
        function(np.zeros((3, 2), np.float32), np.int64(4))
    with pytest.raises(EgshapeError):
        function(np.zeros((3, 2), np.float32), np.int64(-1))


def test_an_output_of_no_elements_whose_axis_is_known_late():
    b = BlockBuilder()
    x, length = argument(b, "x", "f32", [N, 0]), argument(b, "length", "i64", [])
    check(graph_of(b, prefix(b, x, length)), *([np.zeros((n, 0), np.float32), np.int64(n // 2)] for n in (0, 1, 5)))


def test_branches_in_the_rounds_of_a_loop():
    """In round k the branch gives the first k elements, or all of them twice; their sums are added up."""
    b = BlockBuilder()
    x, rounds = argument(b, "x", "f32", [N]), argument(b, "rounds", "i64", [])
    cond, body = b.child(), b.child()
    at, _ = cond.arg(None, "i64", ()), cond.arg(None, "f32", ())
    test = cond.finish([cond.one("compare", [at, rounds], {"direction": "LT", "kind": "SIGNED"})])
    at, total = body.arg(None, "i64", ()), body.arg(None, "f32", ())
    one, two = (body.one("constant", (), {"value": np.array(k)}) for k in (1, 2))
    odd = body.one("compare", [body.one("remainder", [at, two]), one], {"direction": "EQ", "kind": "SIGNED"})
    (found,) = choose(body, odd, lambda c: [prefix(c, x, at)], lambda c: [c.one("concatenate", [x, x], {"dim": 0})])
    again = body.one("tanh", [body.one("concatenate", [found, found], {"dim": 0})])
    (folded,) = body.add("reduce", [again, constant(body, 0, "f32")], {"dims": (0,)}, regions=(sum_of(body),))
    after = [body.one("add", [at, one]), body.one("add", [total, folded])]
    zero = b.one("constant", (), {"value": np.array(0)})
    _, result = b.add("while", [zero, constant(b, 0, "f32")], regions=(test, body.finish(after)))
    check(
        graph_of(b, result),
        *([data("f32", (n,), 1), np.int64(k)] for n, k in ((0, 0), (0, 1), (1, 1), (3, 4), (40, 17))),
        tolerance=1e-4,
    )


def sum_of(b):
    inner = b.child()
    one, two = (inner.arg(None, "f32", ()) for _ in range(2))
    return inner.finish([inner.one("add", [one, two])])


def test_an_artifact_and_given_results(tmp_path):
    b = BlockBuilder()
    x, flag = argument(b, "x", "f32", [N]), argument(b, "flag", "i1", [])
    (found,) = choose(
        b,
        flag,
        lambda inner: [part(inner, x, floordiv(N, 2))],
        lambda inner: [inner.one("concatenate", [x, x], {"dim": 0})],
    )
    graph = graph_of(b, b.one("negate", [found]))
    egshape.compile(graph, target="llvm", optimize=False).save(tmp_path / "x.egx")
    x = np.arange(9, dtype=np.float32)
    for function in (load(tmp_path / "x.egx"), compiled(graph)):
        for flag, wanted in ((True, -x[:4]), (False, -np.concatenate([x, x]))):
            np.testing.assert_array_equal(function(x, np.array(flag)), wanted)
            out = np.empty_like(wanted)
            assert function(x, np.array(flag), out=out) is out
            np.testing.assert_array_equal(out, wanted)
            with pytest.raises((EgshapeError, RunError), match="has the shape"):
                function(x, np.array(flag), out=np.empty(3, np.float32))
