"""LSTM, GRU and RNN as kernels of their own: what the interpreter and ONNX Runtime give, for lengths of all kinds; the
same bits for a row whichever rows are beside it, and for any number of threads."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import egshape
from egshape.ir.expand import expand
from egshape.ir.interpret import interpret
from egshape.plan.ir.program import Repeat, Run
from egshape.plan.targets import plan

onnx = pytest.importorskip("onnx", reason="ONNX needs the extra onnx")

Array = np.ndarray[Any, np.dtype[Any]]
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
WIDTH = 5


@dataclass(frozen=True)
class Net:
    """One layer over x [t, b, 5], or [b, t, 5] with ``layout`` 1."""

    kind: str
    direction: str = "forward"
    hidden: int = 3
    lengths: bool = True
    bias: bool = True
    begun: bool = False
    peepholes: bool = False
    dtype: type = np.float32
    attrs: tuple[tuple[str, Any], ...] = field(default=())

    @property
    def ways(self) -> int:
        return 1 + (self.direction == "bidirectional")

    @property
    def layout(self) -> int:
        return int(dict(self.attrs).get("layout", 0))


NETS = {
    "lstm": Net("LSTM"),
    "lstm-reverse": Net("LSTM", "reverse"),
    "lstm-both": Net("LSTM", "bidirectional", hidden=20, begun=True),
    "lstm-no-lengths": Net("LSTM", "bidirectional", lengths=False, begun=True),
    "lstm-peepholes": Net("LSTM", "bidirectional", peepholes=True),
    "lstm-clip": Net("LSTM", "bidirectional", attrs=(("clip", 0.4),)),
    "lstm-coupled": Net("LSTM", bias=False, attrs=(("input_forget", 1),)),
    "lstm-batch-first": Net("LSTM", "bidirectional", begun=True, attrs=(("layout", 1),)),
    "lstm-double": Net("LSTM", "reverse", dtype=np.float64, begun=True),
    "gru": Net("GRU"),
    "gru-both": Net("GRU", "bidirectional", hidden=17, begun=True, attrs=(("linear_before_reset", 1),)),
    "gru-reset-first": Net("GRU", "bidirectional", begun=True),
    "gru-reverse-no-lengths": Net("GRU", "reverse", lengths=False),
    "rnn-both": Net("RNN", "bidirectional", hidden=50),
    "rnn-relu": Net("RNN", bias=False, attrs=(("activations", ["Relu"]),)),
    "rnn-one": Net("RNN", "bidirectional", hidden=1, begun=True),
}


def model(net: Net) -> bytes:
    """The layer, its weights constants and its sizes open."""
    rng, h, n = np.random.default_rng(0), onnx.helper, net.ways
    kind, rows = h.np_dtype_to_tensor_dtype(np.dtype(net.dtype)), GATES[net.kind] * net.hidden
    weights, inputs = (
        [],
        [h.make_tensor_value_info("x", kind, ["t", "b", WIDTH] if not net.layout else ["b", "t", WIDTH])],
    )

    def constant(name: str, *shape: int) -> str:
        array = (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(net.dtype)
        weights.append(onnx.numpy_helper.from_array(array, name))
        return name

    def given(name: str, kind: int, *shape: str | int) -> str:
        inputs.append(h.make_tensor_value_info(name, kind, list(shape)))
        return name

    state = ("b", n, net.hidden) if net.layout else (n, "b", net.hidden)
    names = ["x", constant("w", n, rows, WIDTH), constant("r", n, rows, net.hidden)]
    names.append(constant("bias", n, 2 * rows) if net.bias else "")
    names.append(given("lengths", onnx.TensorProto.INT32, "b") if net.lengths else "")
    names.append(given("h", kind, *state) if net.begun else "")
    results = ["y", "yh"]
    if net.kind == "LSTM":
        names.append(given("c", kind, *state) if net.begun else "")
        names.append(constant("p", n, 3 * net.hidden) if net.peepholes else "")
        results.append("yc")
    attrs = {"hidden_size": net.hidden, "direction": net.direction, **dict(net.attrs)}
    if "activations" in attrs:
        attrs["activations"] = attrs["activations"] * n
    node = h.make_node(net.kind, names, results, **attrs)
    outputs = [h.make_tensor_value_info(each, kind, None) for each in results]
    graph = h.make_graph([node], "net", inputs, outputs, weights)
    made = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=9)
    return bytes(made.SerializeToString())


@cache
def compiled(name: str, threads: int = 1) -> Any:
    return egshape.compile(model(NETS[name]), target="llvm", threads=threads)


def feeds(net: Net, steps: int, lengths: list[int], seed: int = 0) -> dict[str, Array]:
    """Inputs of a batch of rows of these lengths."""
    rng, batch = np.random.default_rng(seed), len(lengths)
    x = rng.standard_normal((steps, batch, WIDTH)).astype(net.dtype)
    found = {"x": np.ascontiguousarray(x.transpose(1, 0, 2)) if net.layout else x}
    if net.lengths:
        found["lengths"] = np.array(lengths, np.int32)
    for each in ("h", "c")[: (1 + (net.kind == "LSTM")) * net.begun]:
        state = rng.standard_normal((net.ways, batch, net.hidden)).astype(net.dtype)
        found[each] = np.ascontiguousarray(state.transpose(1, 0, 2)) if net.layout else state
    return found


LENGTHS = [
    (1, [1]),
    (4, [4]),
    (4, [0]),
    (6, [2, 6, 0, 1, 6]),
    (5, [3, 3, 3]),
    (3, [0, 0, 0, 0]),
    (7, [1, 2, 3, 4, 5, 6, 7, 6, 5, 4, 3, 2, 1, 0, 7, 3, 3, 2, 5]),
    (2, [2, 1] * 20),
    (9, [4, 2]),
]


@pytest.mark.parametrize("name", NETS)
def test_as_interpreted(name: str) -> None:
    net, run = NETS[name], compiled(name)
    graph = egshape.load(model(net), "onnx")
    tolerance = 1e-5 if net.dtype is np.float32 else 1e-12
    for steps, lengths in LENGTHS:
        given = feeds(net, steps, lengths)
        wanted = interpret(expand(graph), list(given.values()))
        for one, two in zip(run(**given), wanted, strict=True):
            np.testing.assert_allclose(one, two, rtol=tolerance, atol=tolerance, err_msg=f"{lengths} of {steps}")


@pytest.mark.parametrize("name", NETS)
def test_as_in_onnx_runtime(name: str) -> None:
    ort, net = pytest.importorskip("onnxruntime"), NETS[name]
    if net.layout or net.dtype is not np.float32 or "clip" in dict(net.attrs):
        pytest.skip("not in ONNX Runtime, or not the same there (clip)")
    peer = ort.InferenceSession(model(net), providers=["CPUExecutionProvider"])
    for steps, lengths in LENGTHS:
        if 0 in lengths and net.lengths:  # it leaves final states unwritten there
            continue
        given = feeds(net, steps, lengths)
        for one, two in zip(compiled(name)(**given), peer.run(None, given), strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-5, atol=2e-6, err_msg=f"{lengths} of {steps}")


@pytest.mark.parametrize("name", ["lstm-both", "gru-both", "gru-reset-first", "rnn-both", "lstm-double"])
def test_a_row_does_not_hang_on_others(name: str) -> None:
    net, run = NETS[name], compiled(name)
    steps, lengths = LENGTHS[6]
    given = feeds(net, steps, lengths)
    whole = run(**given)
    for row, length in enumerate(lengths):
        alone = {
            key: value[row : row + 1] if key == "lengths" else np.ascontiguousarray(value[:, row : row + 1])
            for key, value in given.items()
        }
        for one, two in zip(run(**alone), whole, strict=True):
            np.testing.assert_array_equal(one[..., 0, :], two[..., row, :], err_msg=f"row {row} of length {length}")


@pytest.mark.parametrize("name", ["lstm-both", "lstm", "gru-reverse-no-lengths"])
def test_threads_change_no_bit(name: str) -> None:
    net = NETS[name]
    for steps, lengths in ((60, list(range(40))), (7, [7] * 33)):
        given = feeds(net, steps, lengths)
        for one, two in zip(compiled(name)(**given), compiled(name, 2)(**given), strict=True):
            np.testing.assert_array_equal(one, two)


def test_lengths_outside_count_as_the_nearest() -> None:
    net, run = NETS["lstm-both"], compiled("lstm-both")
    given = feeds(net, 4, [4, 0, 2])
    wild = {**given, "lengths": np.array([9, -3, 2], np.int32)}
    for one, two in zip(run(**wild), run(**given), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("name", NETS)
def test_one_kernel(name: str) -> None:
    graph = egshape.load(model(NETS[name]), "onnx")
    steps = plan(graph).steps
    labels = [step.kernel.label for step in steps if isinstance(step, Run)]
    assert labels.count("recurrence") == 1 and not any(isinstance(step, Repeat) for step in steps)
    assert ("rows_by_length" in labels) == NETS[name].lengths
    assert any(isinstance(step, Repeat) for step in plan(graph, target="cuda").steps)


def test_steps_that_are_not_there_are_not_read() -> None:
    net, run = NETS["lstm-both"], compiled("lstm-both")
    steps, lengths = 6, [2, 6, 0, 1, 5]
    given = feeds(net, steps, lengths)
    for row, length in enumerate(lengths):
        given["x"][length:, row] = np.nan
    assert all(np.isfinite(each).all() for each in run(**given))


def test_saved_as_the_op_that_it_was(tmp_path: Path) -> None:
    result = egshape.optimize(egshape.load(model(NETS["lstm-both"]), "onnx"))
    egshape.save(result.graph, tmp_path / "net.onnx")
    assert [node.op_type for node in onnx.load(tmp_path / "net.onnx").graph.node] == ["LSTM"]
