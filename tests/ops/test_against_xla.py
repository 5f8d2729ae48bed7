"""References of ops with windows, indices and order against XLA on the CPU."""

import numpy as np
import pytest

from egshape.ops import REGISTRY

jax = pytest.importorskip("jax")
lax = jax.lax


class Body:
    def __init__(self, function):
        self.function = function

    def __call__(self, *arrays):
        return [np.asarray(self.function(*arrays))]


@pytest.mark.parametrize("seed", range(8))
def test_convolution(seed):
    rng = np.random.default_rng(seed)
    groups, batch_groups = [(1, 1), (2, 1), (1, 2)][seed % 3]
    x = rng.integers(-4, 4, (2, 4, 5, 6)).astype(np.float32)
    kernel = rng.integers(-4, 4, (4, 4 // groups, *rng.integers(1, 4, 2))).astype(np.float32)
    strides, base, dilation = (tuple(map(int, rng.integers(1, 4, 2))) for _ in range(3))
    padding = tuple(map(int, rng.integers(-1, 3, 4)))
    want = lax.conv_general_dilated(
        x,
        kernel,
        strides,
        [padding[:2], padding[2:]],
        base,
        dilation,
        ("NCHW", "OIHW", "NCHW"),
        feature_group_count=groups,
        batch_group_count=batch_groups,
    )
    got = REGISTRY["convolution"].reference(
        x,
        kernel,
        numbers=(0, 1, (2, 3), 1, 0, (2, 3), 0, 1, (2, 3)),
        strides=strides,
        padding=padding,
        lhs_dilation=base,
        rhs_dilation=dilation,
        reversal=(0, 0),
        feature_groups=groups,
        batch_groups=batch_groups,
        precision=(),
        dtype="f32",
    )
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("init", [0, 1])
def test_reduce_window(seed, init):
    """Places that are no element are left out, so that a sum from 1 has one 1 in it."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-4, 4, tuple(rng.integers(1, 6, 2))).astype(np.float32)
    window, strides, base, dilation = (tuple(map(int, rng.integers(1, 4, 2))) for _ in range(4))
    padding = tuple(map(int, rng.integers(0, 3, 4)))
    start = np.float32(init)
    want = lax.reduce_window(x, start, lax.add, window, strides, [padding[:2], padding[2:]], base, dilation)
    (got,) = REGISTRY["reduce_window"].reference(
        x,
        start,
        window=window,
        strides=strides,
        base_dilation=base,
        window_dilation=dilation,
        padding=padding,
        regions=(Body(np.add),),
    )
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("indices", [[[0, 1], [3, 2]], [[-1, 0], [9, -5]], [[4, 2], [4, 3]]])
def test_gather(indices):
    x, places = np.arange(20, dtype=np.float32).reshape(5, 4), np.array(indices, np.int32)
    numbers = lax.GatherDimensionNumbers(offset_dims=(0, 2), collapsed_slice_dims=(), start_index_map=(0, 1))
    want = lax.gather(x, places, numbers, (2, 3), mode="clip")
    got = REGISTRY["gather"].reference(
        x,
        places,
        offset_dims=(0, 2),
        collapsed=(),
        operand_batch=(),
        indices_batch=(),
        start_index_map=(0, 1),
        index_vector_dim=1,
        sizes=(2, 3),
        sorted=False,
    )
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("indices", [[[0], [3], [0]], [[-1], [9], [4]], [[2], [2], [2]]])
@pytest.mark.parametrize("name", ["add", "set"])
def test_scatter_of_rows(indices, name):
    x, places = np.arange(20, dtype=np.float32).reshape(5, 4), np.array(indices, np.int32)
    updates = np.arange(100, 112, dtype=np.float32).reshape(3, 4)
    numbers = lax.ScatterDimensionNumbers((1,), (0,), (0,))
    function = lax.scatter_add if name == "add" else lax.scatter
    want = function(x, places, updates, numbers, mode="drop")
    (got,) = REGISTRY["scatter"].reference(
        x,
        places,
        updates,
        update_window_dims=(1,),
        inserted_window_dims=(0,),
        operand_batch=(),
        indices_batch=(),
        scatter_dims_to_operand_dims=(0,),
        index_vector_dim=1,
        sorted=False,
        unique=False,
        regions=(Body(np.add if name == "add" else lambda a, b: b),),
    )
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("padding", ["VALID", "SAME"])
def test_gradient_of_max_pooling_scatters_to_the_first_maximum(padding):
    x = np.random.default_rng(0).integers(0, 3, (5, 6)).astype(np.float32)

    def pool(array):
        return lax.reduce_window(array, -np.inf, lax.max, (2, 3), (2, 2), padding)

    pooled, back = jax.vjp(pool, x)
    source = np.arange(1, pooled.size + 1, dtype=np.float32).reshape(pooled.shape)
    pads = lax.padtype_to_pads(x.shape, (2, 3), (2, 2), padding)
    got = REGISTRY["select_and_scatter"].reference(
        x,
        source,
        np.float32(0),
        window=(2, 3),
        strides=(2, 2),
        padding=tuple(p for pair in pads for p in pair),
        regions=(Body(np.greater_equal), Body(np.add)),
    )
    np.testing.assert_array_equal(got, back(source)[0])


def test_sort_of_floats():
    values = np.array([3, np.nan, -0.0, 0.0, -np.inf, np.inf, 3, -1], np.float32)
    places = np.arange(8, dtype=np.int32)
    want = lax.sort((values, places), num_keys=1, is_stable=True)

    def goes_first(a, b, *rest):
        a, b = (np.where(v == 0, np.float32(0), np.where(np.isnan(v), np.float32(np.nan), v)) for v in (a, b))
        return REGISTRY["compare"].reference(a, b, direction="LT", kind="TOTALORDER")

    got = REGISTRY["sort"].reference(values, places, dim=0, stable=True, regions=(Body(goes_first),))
    for one, two in zip(got, want, strict=True):
        np.testing.assert_array_equal(one, two)
