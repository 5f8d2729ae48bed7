"""The host program: what the native entry does, in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from egshape.dims import Dim
from egshape.plan.ir.launch import Launch
from egshape.plan.ir.loops import Buffer, Kernel
from egshape.plan.ir.ranges import Ranged


@dataclass(frozen=True, eq=False, slots=True)
class CheckSizes:
    """Stop with a message unless ``lhs relation rhs``; ``args`` fill {0}, {1}, ..."""

    relation: str
    lhs: Dim
    rhs: Dim
    message: str
    args: tuple[Dim, ...] = ()
    where: str = ""


@dataclass(frozen=True, eq=False, slots=True)
class CheckValue:
    """Stop with a message unless the i1 scalar is true; scalar buffers fill the message."""

    value: Buffer
    message: str
    args: tuple[Buffer, ...] = ()
    sizes: tuple[Dim, ...] = ()
    where: str = ""


@dataclass(frozen=True, eq=False, slots=True)
class BindSize:
    """The symbol ``name`` is the integer at ``element`` of ``buffer`` plus ``offset``; negative stops the program."""

    name: str
    buffer: Buffer
    element: int
    offset: int
    where: str = ""


@dataclass(frozen=True, eq=False, slots=True)
class DefineSize:
    """The symbol ``name`` has the value of an expression over earlier symbols."""

    name: str
    value: Dim


@dataclass(frozen=True, eq=False, slots=True)
class Run:
    """Run a kernel; on a device as ``launch`` says, whose kernel it is, on a processor as ``ranged`` says, which
    computes the same. ``unless``: the ``Attention`` before it that has done so if the library ran."""

    kernel: Kernel
    launch: Launch | None = None
    ranged: Ranged | None = None
    unless: str = ""


@dataclass(frozen=True, eq=False, slots=True)
class GemmOperand:
    """An operand of a library's product: element (free, deep) of a batch at ``offset`` + batch*step + free*pitch +
    deep; ``turned``: + free + deep*pitch."""

    buffer: Buffer
    offset: Dim
    pitch: Dim
    step: Dim
    turned: bool


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Gemm(Run):
    """``count`` products of (m, k) by (k, n), one after the other in ``out``, with ``bias`` added to each row, and
    ``residual``, which lies as ``out`` does; then ``gelu`` (in its tanh form) of that. What a library may run; where
    there is none, or none for these sizes (k = 0), the kernel computes the same."""

    count: Dim
    m: Dim
    n: Dim
    k: Dim
    left: GemmOperand
    right: GemmOperand
    out: Buffer
    bias: Buffer | None = None
    residual: Buffer | None = None
    gelu: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Heads:
    """A tensor of a library's attention: element (batch, head, row, place) at ``offset`` + batch*steps[0] +
    head*steps[1] + row*steps[2] + place."""

    buffer: Buffer
    offset: Dim
    steps: tuple[Dim, Dim, Dim]


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Attention(Run):
    """softmax(``scale`` * queries keys^T) values for each batch and head, of which heads / ``groups`` share keys and
    values, by a library if it can; ``causal``: of the keys up to the number of the row. It does not launch its kernel,
    which computes the same: the steps behind it do, where the library did not run (``done``: their ``unless``)."""

    done: str
    batch: Dim
    heads: Dim
    groups: Dim
    rows: Dim
    columns: Dim
    depth: Dim
    width: Dim
    queries: Heads
    keys: Heads
    values: Heads
    out: Heads
    scale: float
    causal: bool


@dataclass(frozen=True, eq=False, slots=True)
class Copy:
    """Copy all of ``source`` to ``target``."""

    source: Buffer
    target: Buffer


@dataclass(frozen=True, eq=False, slots=True)
class Swap:
    """Exchange the memory of two buffers of which only running tells the sizes."""

    one: Buffer
    two: Buffer


@dataclass(frozen=True, eq=False, slots=True)
class Extend:
    """Memory for ``size`` elements for a buffer of which only running tells the size; what it holds stays."""

    buffer: Buffer
    size: Dim


@dataclass(frozen=True, eq=False, slots=True)
class Branch:
    """One of the branches: that of the number in ``index``, the last one if there is none such. An i1 ``index``
    takes branch 0 where it is true."""

    index: Buffer
    branches: tuple[tuple[Step, ...], ...]


@dataclass(frozen=True, eq=False, slots=True)
class Repeat:
    """``test`` steps, then as long as ``condition`` is true ``body`` and ``test`` again."""

    test: tuple[Step, ...]
    condition: Buffer
    body: tuple[Step, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Port:
    """An input or output: its name, its buffer and its shape. ``over``: of an output, the input whose memory may be its
    own (plan/form/donated.py)."""

    name: str
    buffer: Buffer
    shape: tuple[Dim, ...]
    over: str | None = None


@dataclass(frozen=True, eq=False, slots=True)
class HostCall:
    """Call a Python function with arrays. ``call`` says which (egshape.ops.host), ``target`` is its name for people;
    ``defines``: symbols that are the size of an (output, axis), known once the function has returned."""

    target: str
    call: tuple[str, str]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    defines: tuple[tuple[str, int, int], ...]
    where: str = ""


Step: TypeAlias = (
    CheckSizes | CheckValue | BindSize | DefineSize | Run | Copy | Swap | Extend | Branch | Repeat | HostCall
)


@dataclass(frozen=True, eq=False, slots=True)
class Program:
    """A whole graph. ``symbols``: where each input symbol is read, (input, axis, factor, offset): the axis has the
    size factor*symbol + offset."""

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    symbols: Mapping[str, tuple[int, int, int, int]]
    steps: tuple[Step, ...]
    constants: tuple[Buffer, ...]
    assumed: tuple[str, ...] = field(default=())
    images: str = ""
    """The symbol of the first axis of inputs and all outputs where the program does the same to each entry along it
    (plan/analysis/images.py)."""
