"""What tests of the CUDA back end share: the compiled text of kernels."""

from __future__ import annotations

import pytest

from tests.cuda.text import Texts, missing


@pytest.fixture(scope="session")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Texts:
    """Printed text as code of this processor, in a folder of this run."""
    if missing():
        pytest.skip(f"running printed text needs {missing()}")
    return Texts(tmp_path_factory.mktemp("texts"))
