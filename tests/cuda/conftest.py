"""What tests of the CUDA back end share: the compiled text of kernels."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tests.cuda.text import Texts, missing


@pytest.fixture(scope="session")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Texts:
    """Printed text as code of this processor, in a folder of this run."""
    if missing():
        pytest.skip(f"running printed text needs {missing()}")
    return Texts(tmp_path_factory.mktemp("texts"))


@pytest.fixture(scope="module", autouse=True)
def only_new_objects_are_collected() -> Iterator[None]:
    """Devices collect garbage after every test, to see what is not given back. In a process that has run other tests
    that takes seconds, unless the collector leaves alone what was there before."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
