"""A maker of random ONNX models that are right: each node is run by ONNX Runtime when it is made, at several witnesses
(one size for each symbol), and kept if it runs at all of them.

A value knows its array at every witness, so that pieces can ask for what fits: sizes that are equal wherever they were
tried may still differ elsewhere, which is what an optimizer must not mix up."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

SYMBOLS = ("a", "b", "c")
SIZES = (0, 1, 1, 2, 3, 5, 7)
WITNESSES = 3
LARGEST = 4000
"""Most elements of one value."""

BIGGEST = 1e4
"""Values with larger elements are dropped: sums of them differ by more than rounding when they are ordered anew."""

_T = TypeVar("_T")


@dataclass(frozen=True, eq=False)
class Held:
    """A value: its name and what it is at each witness. ``exact``: no rounding went into it, so that a comparison or a
    rounding of it is the same in any order of summation."""

    name: str
    arrays: tuple[np.ndarray, ...]
    exact: bool = True
    inner: bool = field(default=False, kw_only=True)
    """It is made of other values: no input and no constant."""

    @property
    def rank(self) -> int:
        """The number of axes."""
        return int(self.arrays[0].ndim)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""
        return self.arrays[0].dtype

    @property
    def axes(self) -> list[tuple[int, ...]]:
        """The size of each axis, at each witness."""
        return [tuple(array.shape[axis] for array in self.arrays) for axis in range(self.rank)]

    @property
    def kind(self) -> str:
        """What numpy calls the kind of the elements: f, i, u, b."""
        return self.dtype.kind


def session(model: bytes) -> ort.InferenceSession:
    """A session that runs the model as it is written."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def outputs(held: ort.InferenceSession, feed: dict[str, np.ndarray]) -> list[np.ndarray] | str:
    """What a model gives, or how it fails."""
    known = {each.name for each in held.get_inputs()}
    try:
        return list(held.run(None, {name: array for name, array in feed.items() if name in known}))
    except Exception as error:  # the runtime's errors have no common class
        return str(error).splitlines()[0][:300]


class Maker:
    """One model under construction."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.opset = self.choice((13, 17, 18, 21))
        self.empty = self.opset >= 14
        """Sizes may be 0: not before Reshape had ``allowzero``, and not where ONNX Runtime's mean of nothing counts."""
        zero = self.empty and self.chance(3)
        self.env = [{name: self.choice(SIZES if zero else SIZES[1:]) for name in SYMBOLS} for _ in range(WITNESSES)]
        if self.chance(3):
            self.env[-1] = dict.fromkeys(SYMBOLS, 1)
        self.pool: list[Held] = []
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.feeds: list[dict[str, np.ndarray]] = [{} for _ in range(WITNESSES)]
        self.axes: dict[str, Sequence[int | str]] = {}
        """The axes of each input by symbols, whether the model names them or not."""
        self.initializers: list[onnx.TensorProto] = []
        self.read: set[str] = set()
        self.fixed = False
        """An input holds sizes: the model is right at its witnesses only."""
        self._count = 0

    # -- decisions -------------------------------------------------------------------------------------------------

    def choice(self, items: Sequence[_T]) -> _T:
        """One of the items."""
        return items[self.rng.randrange(len(items))]

    def chance(self, one_in: int) -> bool:
        """True once in so many times."""
        return self.rng.randrange(one_in) == 0

    def fresh(self) -> str:
        """A name that nothing has."""
        self._count += 1
        return f"{self.choice(('v', '/block/v', 'v.'))}{self._count}"

    def pick(self, fits: Callable[[Held], bool], recent: int = 12) -> Held | None:
        """A value that fits, late ones sooner than early ones; None if none does."""
        found = [value for value in self.pool if fits(value)]
        if not found:
            return None
        return self.choice(found[-recent:] if self.rng.randrange(4) else found)

    def rounds(self, fits: Callable[[Held], bool] = lambda _: True) -> Held | None:
        """A float that fits."""
        return self.pick(lambda value: value.kind == "f" and fits(value))

    # -- leaves ----------------------------------------------------------------------------------------------------

    def input(
        self, dtype: str, axes: Sequence[str | int], low: int = -2, high: int = 3, *, fractions: bool = False
    ) -> Held:
        """An input whose axes are symbols, some of them under names of their own, and numbers."""
        name = f"x{len(self.inputs)}"
        shown: list[int | str | None] = [None if isinstance(axis, str) and self.chance(6) else axis for axis in axes]
        shapes = [tuple(env[axis] if isinstance(axis, str) else axis for axis in axes) for env in self.env]
        arrays = [self.data(dtype, shape, low, high, fractions) for shape in shapes]
        self.axes[name] = axes
        return self._input(name, arrays, shown, exact=not fractions)

    def given(self, arrays: Sequence[np.ndarray]) -> Held:
        """An input that holds sizes or places, one array for each witness, of one shape."""
        self.fixed = True
        return self._input(f"x{len(self.inputs)}", arrays, list(arrays[0].shape))

    def _input(
        self, name: str, arrays: Sequence[np.ndarray], shown: list[int | str | None], exact: bool = True
    ) -> Held:
        self.inputs.append(helper.make_tensor_value_info(name, _elem(arrays[0]), shown))
        for feed, array in zip(self.feeds, arrays, strict=True):
            feed[name] = array
        held = Held(name, tuple(arrays), exact)
        self.pool.append(held)
        return held

    def data(self, dtype: str, shape: Sequence[int], low: int, high: int, fractions: bool) -> np.ndarray:
        """Small whole numbers, or fractions: sums and products of the former are exact."""
        made = np.array([self.rng.randint(low, high) for _ in range(int(np.prod(shape)))], float)
        if fractions:
            made = made + np.array([self.rng.random() for _ in range(made.size)])
        return made.reshape(tuple(shape)).astype(dtype)

    def constant(self, array: np.ndarray | Sequence[int] | int, dtype: str = "int64") -> Held:
        """A constant, as an initializer or as a node."""
        held = np.asarray(array, None if isinstance(array, np.ndarray) else dtype)
        name, exact = self.fresh(), held.dtype.kind != "f" or bool(np.all(held == np.round(held)))
        if self.chance(2):
            self.initializers.append(numpy_helper.from_array(held, name))
        else:
            self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(held)))
        return Held(name, (held,) * WITNESSES, exact)

    # -- nodes -----------------------------------------------------------------------------------------------------

    def emit(
        self,
        op: str,
        operands: Sequence[Held | None],
        *,
        results: int = 1,
        exact: bool = True,
        keep: bool = True,
        **attributes: Any,
    ) -> list[Held] | None:
        """A node and its results, None where ONNX Runtime rejects it at a witness. ``exact``: it rounds nothing."""
        names = [self.fresh() for _ in range(results)]
        node = helper.make_node(op, ["" if each is None else each.name for each in operands], names, **attributes)
        there = {each.name: each for each in operands if each is not None}
        arrays = self.run_alone(node, there)
        if arrays is None:
            return None
        whole = exact and all(each.exact for each in there.values())
        made = [Held(name, held, whole, inner=True) for name, held in zip(names, arrays, strict=True)]
        self.nodes.append(node)
        self.read |= set(there)
        if keep:
            self.pool += made
        return made

    def run_alone(self, node: onnx.NodeProto, there: dict[str, Held]) -> list[tuple[np.ndarray, ...]] | None:
        """The results of a node at every witness."""
        infos = [helper.make_tensor_value_info(name, _elem(held.arrays[0]), None) for name, held in there.items()]
        outs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = helper.make_graph([node], "one", infos, outs)
        try:
            alone = session(self.model(graph).SerializeToString())
        except Exception:  # the runtime's errors have no common class
            return None
        found = []
        for witness in range(WITNESSES):
            made = outputs(alone, {name: held.arrays[witness] for name, held in there.items()})
            if isinstance(made, str) or not all(map(_bearable, made)):
                return None
            found.append(made)
        return [tuple(column) for column in zip(*found, strict=True)]

    def one(self, op: str, operands: Sequence[Held | None], **options: Any) -> Held | None:
        """A node with one result."""
        made = self.emit(op, operands, **options)
        return None if made is None else made[0]

    def model(self, graph: onnx.GraphProto) -> onnx.ModelProto:
        """A graph as a model."""
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)

    def finish(self, wanted: Sequence[Held]) -> onnx.ModelProto:
        """The model with these outputs, whose declared axes are true, false or missing: nothing may rest on them."""
        outs = [
            helper.make_tensor_value_info(value.name, _elem(value.arrays[0]), self._claimed(value)) for value in wanted
        ]
        graph = helper.make_graph(self.nodes, "fuzz", self.inputs, outs, self.initializers)
        inner = [value for value in self.pool if value.inner and value not in wanted and self.chance(3)]
        graph.value_info.extend(
            helper.make_tensor_value_info(value.name, _elem(value.arrays[0]), self._claimed(value)) for value in inner
        )
        return self.model(graph)

    def _claimed(self, value: Held) -> list[str | None] | None:
        if self.chance(3):
            return None
        lie = [self.choice((None, "a", "b", "q", "a + b", "2*c")) for _ in range(value.rank)]
        return lie if self.chance(2) else [None] * value.rank


def _elem(array: np.ndarray) -> int:
    return int(helper.np_dtype_to_tensor_dtype(array.dtype))


def _bearable(array: Any) -> bool:
    if not isinstance(array, np.ndarray) or array.size > LARGEST or array.ndim > 6:
        return False
    return array.dtype.kind == "b" or bool(np.all(np.isfinite(array)) and np.all(np.abs(array.astype(float)) < BIGGEST))
