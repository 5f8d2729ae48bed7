"""What EGSHAPE_DUMP writes, and what fn.profile says."""

import numpy as np
import pytest

from egshape.adapters.native import compile_function
from tests.lower.test_pool import arrays, products, rows


@pytest.mark.parametrize("make", [rows, products])
def test_every_stage_is_there(make, tmp_path, monkeypatch):
    monkeypatch.setenv("EGSHAPE_DUMP", str(tmp_path))
    compile_function(make())
    assert "program" in (tmp_path / "plan.txt").read_text() and "egshape_entry" in (tmp_path / "module.ll").read_text()
    assert (tmp_path / "graph.txt").read_text()
    names = {file.stem for file in (tmp_path / "kernels").iterdir()}
    assert names
    for name in names:
        assert "kernel" in (tmp_path / "kernels" / f"{name}.loops").read_text()
        assert f"define void @{name}(" in (tmp_path / "kernels" / f"{name}.ll").read_text()
        assert f"{name}:" in (tmp_path / "kernels" / f"{name}.s").read_text()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_profile(threads):
    function = compile_function(products(), threads)
    shape = 200, 300
    found = function.profile(*arrays(products(), shape), runs=3)
    assert found.runs == 3 and found.seconds > 0 and sum(row.seconds for row in found.kernels) <= found.seconds
    top = max(found.kernels, key=lambda row: row.flops)
    assert top.calls == 1 and top.flops >= 2 * 200 * 300 * 96 and top.gflops > 0 and top.gbps > 0
    assert "GFLOP/s" in str(found) and "<table>" in found._repr_html_() and top.name in str(found)
    np.testing.assert_allclose(top.bytes, 4 * (200 * 300 + 300 * 96 + 200 * 96), rtol=0.5)


def test_a_profile_of_wrong_inputs():
    function = compile_function(products())
    with pytest.raises(Exception, match="inputs"):
        function.profile()
    function(*arrays(products(), (3, 4)))
