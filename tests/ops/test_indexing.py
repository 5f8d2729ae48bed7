"""gather and scatter: types, clamping and skipping, references against the spec's loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egshape.dims import const, symbol
from egshape.errors import CheckFailed, EgshapeError
from egshape.ir.builder import BlockBuilder
from egshape.ir.types import TensorType
from egshape.ops import REGISTRY

GATHER, SCATTER = REGISTRY["gather"], REGISTRY["scatter"]


def gather_attrs(**given_attrs):
    return {
        "offset_dims": (),
        "collapsed": (),
        "operand_batch": (),
        "indices_batch": (),
        "start_index_map": (),
        "index_vector_dim": 1,
        "sorted": False,
        **given_attrs,
    }


def scatter_attrs(**given_attrs):
    return {
        "update_window_dims": (),
        "inserted_window_dims": (),
        "operand_batch": (),
        "indices_batch": (),
        "scatter_dims_to_operand_dims": (),
        "index_vector_dim": 1,
        "sorted": False,
        "unique": False,
        **given_attrs,
    }


def vector_at(indices, batch, index_vector_dim):
    if index_vector_dim == indices.ndim:
        return [int(indices[batch])]
    place = list(batch)
    place.insert(index_vector_dim, slice(None))
    return [int(i) for i in np.atleast_1d(indices[tuple(place)])]


def batch_index(batch, axis, index_vector_dim):
    return batch[axis - (axis > index_vector_dim)]


def gather_loops(
    x,
    indices,
    *,
    offset_dims,
    collapsed,
    operand_batch,
    indices_batch,
    start_index_map,
    index_vector_dim,
    sizes,
    sorted,
):
    outer = [s for axis, s in enumerate(indices.shape) if axis != index_vector_dim]
    inner = [s for axis, s in enumerate(sizes) if axis not in (*collapsed, *operand_batch)]
    rank = len(outer) + len(inner)
    batch_dims = [axis for axis in range(rank) if axis not in offset_dims]
    shape = [0] * rank
    for axis, size in zip((*batch_dims, *offset_dims), (*outer, *inner), strict=True):
        shape[axis] = size
    out = np.zeros(shape, x.dtype)
    for index in np.ndindex(*shape):
        batch = tuple(index[axis] for axis in batch_dims)
        start = [0] * x.ndim
        for axis, value in zip(start_index_map, vector_at(indices, batch, index_vector_dim), strict=True):
            start[axis] = min(max(value, 0), x.shape[axis] - sizes[axis])
        for axis, source in zip(operand_batch, indices_batch, strict=True):
            start[axis] = batch_index(batch, source, index_vector_dim)
        offsets = iter(index[axis] for axis in offset_dims)
        out[index] = x[
            tuple(s + (0 if axis in (*collapsed, *operand_batch) else next(offsets)) for axis, s in enumerate(start))
        ]
    return out


def scatter_loops(
    x,
    indices,
    updates,
    combine,
    *,
    update_window_dims,
    inserted_window_dims,
    operand_batch,
    indices_batch,
    scatter_dims_to_operand_dims,
    index_vector_dim,
    sorted,
    unique,
):
    out = x.copy()
    outer = [axis for axis in range(updates.ndim) if axis not in update_window_dims]
    for index in np.ndindex(*updates.shape):
        batch = tuple(index[axis] for axis in outer)
        place = [0] * x.ndim
        vector = vector_at(indices, batch, index_vector_dim)
        for axis, value in zip(scatter_dims_to_operand_dims, vector, strict=True):
            place[axis] = value
        for axis, source in zip(operand_batch, indices_batch, strict=True):
            place[axis] = batch_index(batch, source, index_vector_dim)
        dropped = (*inserted_window_dims, *operand_batch)
        offsets = iter([index[axis] for axis in update_window_dims])
        sizes = iter([updates.shape[axis] for axis in update_window_dims])
        windows = [1 if axis in dropped else next(sizes) for axis in range(x.ndim)]
        if all(0 <= p <= size - window for p, window, size in zip(place, windows, x.shape, strict=True)):
            place = [p + (0 if axis in dropped else next(offsets)) for axis, p in enumerate(place)]
            out[tuple(place)] = combine(out[tuple(place)], updates[index])
    return out


CASES = {  # operand shape, indices shape, attrs
    "rows": (
        (5, 3),
        (4, 1),
        gather_attrs(offset_dims=(1,), collapsed=(0,), start_index_map=(0,), sizes=(1, 3)),
    ),
    "windows": ((5, 3), (4, 2), gather_attrs(offset_dims=(0, 2), start_index_map=(1, 0), sizes=(2, 2))),
    "implied vector": (
        (6,),
        (2, 3),
        gather_attrs(collapsed=(0,), start_index_map=(0,), index_vector_dim=2, sizes=(1,)),
    ),
    "vector first": (
        (4, 5),
        (2, 3),
        gather_attrs(collapsed=(0, 1), start_index_map=(0, 1), index_vector_dim=0, sizes=(1, 1)),
    ),
    "batching": (
        (2, 5, 3),
        (2, 4, 1),
        gather_attrs(
            offset_dims=(2,),
            collapsed=(1,),
            operand_batch=(0,),
            indices_batch=(0,),
            start_index_map=(1,),
            index_vector_dim=2,
            sizes=(1, 1, 3),
        ),
    ),
    "batching behind": (
        (5, 2),
        (1, 4, 2),
        gather_attrs(
            collapsed=(0,),
            operand_batch=(1,),
            indices_batch=(2,),
            start_index_map=(0,),
            index_vector_dim=0,
            sizes=(1, 1),
        ),
    ),
    "no index": ((5, 3), (0,), gather_attrs(offset_dims=(0, 1), index_vector_dim=0, sizes=(2, 3))),
    "empty batch": (
        (5, 3),
        (0, 1),
        gather_attrs(offset_dims=(1,), collapsed=(0,), start_index_map=(0,), sizes=(1, 3)),
    ),
    "empty slice": (
        (5, 0),
        (2, 1),
        gather_attrs(offset_dims=(1,), collapsed=(0,), start_index_map=(0,), sizes=(1, 0)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_gather_is_its_loops_and_its_type(name):
    shape, index_shape, attrs = CASES[name]
    rng = np.random.default_rng(len(name))
    x = rng.integers(0, 99, shape)
    indices = rng.integers(-3, 8, index_shape).astype(np.int32)
    got = GATHER.reference(x, indices, **attrs)
    np.testing.assert_array_equal(got, gather_loops(x, indices, **attrs))
    types = [TensorType(dtype, tuple(map(const, sizes))) for dtype, sizes in (("i64", shape), ("i32", index_shape))]
    _, dims = GATHER.shape(*types, **{**attrs, "sizes": tuple(map(const, attrs["sizes"]))})
    assert tuple(dim.const for dim in dims) == got.shape


@pytest.mark.parametrize("name", [name for name in CASES if name != "windows"])
@pytest.mark.parametrize("kind", ["add", "last"])
def test_scatter_is_its_loops(name, kind):
    shape, index_shape, attrs = CASES[name]
    rng = np.random.default_rng(len(name))
    x = rng.integers(0, 99, shape)
    indices = rng.integers(-2, 7, index_shape).astype(np.int32)
    updates = rng.integers(0, 99, GATHER.reference(x, indices, **attrs).shape)
    mapped = scatter_attrs(
        update_window_dims=attrs["offset_dims"],
        inserted_window_dims=attrs["collapsed"],
        operand_batch=attrs["operand_batch"],
        indices_batch=attrs["indices_batch"],
        scatter_dims_to_operand_dims=attrs["start_index_map"],
        index_vector_dim=attrs["index_vector_dim"],
    )
    combine = (lambda a, b: a * 3 + b) if kind == "add" else (lambda a, b: b)
    (got,) = SCATTER.reference(x, indices, updates, **mapped, regions=(lambda a, b: [combine(a, b)],))
    np.testing.assert_array_equal(got, scatter_loops(x, indices, updates, combine, **mapped))


@given(st.lists(st.integers(-9, 9), max_size=8), st.sampled_from([np.int8, np.uint8, np.uint64]))
@settings(max_examples=30, deadline=None)
def test_gather_clamps(values, dtype):
    indices = np.array(values, np.int64).astype(dtype)
    got = GATHER.reference(np.arange(5), indices, **CASES["implied vector"][2] | {"index_vector_dim": 1})
    assert got.tolist() == [min(max(int(i), 0), 4) for i in indices]


def test_gather_of_several_axes_with_symbols():
    x = TensorType("f32", (symbol("n"), symbol("m"), const(4)))
    indices = TensorType("i32", (symbol("k"), const(1)))
    _, dims = GATHER.shape(
        x,
        indices,
        **gather_attrs(
            offset_dims=(0, 2), collapsed=(0,), start_index_map=(0,), sizes=(const(1), symbol("m"), const(4))
        ),
    )
    assert dims == (symbol("m"), symbol("k"), const(4))


@pytest.mark.parametrize(
    "change",
    [
        {"sizes": (const(6), const(3))},
        {"collapsed": (2,)},
        {"offset_dims": (0, 1)},
        {"start_index_map": (0, 1)},
        {"index_vector_dim": 3},
        {"collapsed": (1,)},
        {"operand_batch": (1,)},
    ],
)
def test_gather_rejects(change):
    attrs = gather_attrs(offset_dims=(1,), collapsed=(0,), start_index_map=(0,), sizes=(const(1), const(3)))
    with pytest.raises(EgshapeError):
        GATHER.shape(
            TensorType("f32", (const(5), const(3))),
            TensorType("i32", (const(4), const(1))),
            **{**attrs, **change},
        )


def test_a_slice_that_is_too_large_fails():
    _, _, attrs = CASES["rows"]
    with pytest.raises(CheckFailed, match="does not fit"):
        GATHER.reference(np.zeros((5, 2)), np.zeros((4, 1), np.int32), **attrs)
    with pytest.raises(CheckFailed, match="does not fit"):
        GATHER.reference(np.zeros((0, 3)), np.zeros((4, 1), np.int32), **attrs)


def test_gather_elements_of_a_shape():
    b = BlockBuilder()
    shape = b.one("dims", (), {"elements": (symbol("n"), const(4)), "shape": (2,), "dtype": "i64"})
    index = b.one("constant", (), {"value": np.array([1, 0, -7], np.int32)})
    got = b.one("gather", (shape, index), gather_attrs(collapsed=(0,), start_index_map=(0,), sizes=(const(1),)))
    assert list(b.elements(got)) == [const(4), symbol("n"), symbol("n")]


def test_scatter_of_two_inputs():
    x, y = np.zeros(3, np.float32), np.zeros(3, np.int32)
    indices = np.array([[2], [0], [2], [5]], np.int32)
    a, b = np.array([1, 2, 3, 4], np.float32), np.array([1, 2, 3, 4], np.int32)
    attrs = scatter_attrs(inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    one, two = SCATTER.reference(x, y, indices, a, b, **attrs, regions=(lambda p, q, r, s: [p + r, q * 10 + s],))
    assert one.tolist() == [2, 0, 4] and two.tolist() == [2, 0, 13]
    assert x.tolist() == [0, 0, 0]
