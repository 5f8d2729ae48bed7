"""Random programs of the engine's fuzz, compiled and held against the interpreter at several sizes.

Sums may be reassociated and fused (the contract of reductions and dots), so that where infinite or overflowing
elements meet, the compiled result may be infinite where the interpreter's is NaN: such data is not drawn."""

import numpy as np
import pytest

from egshape.errors import EgshapeError
from tests.fuzz.compiled import tame
from tests.fuzz.differential import wanted
from tests.fuzz.engine import program
from tests.fuzz.maker import arrays_at, bearable, variations
from tests.lower.checking import assert_close, call, compiled


@pytest.mark.parametrize("seed", range(1000, 1025))
def test_program(seed):
    maker, graph = program(seed, (), 8)
    function = compiled(graph)
    for sizes, numbers in variations(maker, seed, 5):
        if not bearable(graph, sizes):
            continue
        arrays = [tame(array) for array in arrays_at(graph, sizes, numbers, seed)]
        expected = wanted(graph, arrays)
        if expected.error is not None:
            with pytest.raises(EgshapeError):
                function(*arrays)
            continue
        for found, exact in zip(call(function, arrays), expected.results, strict=True):
            assert_close(found, exact, 3e-5 if found.dtype == np.float32 else None)
