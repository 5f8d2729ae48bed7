"""What all blocks of one conversion share, and what a name of ONNX can stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import FunctionProto

from egshape.dims import Dim
from egshape.facts import Relation
from egshape.frontends.bounds import Bounds
from egshape.frontends.calls import Functions
from egshape.frontends.onnx.files import Model
from egshape.frontends.onnx.node import Node
from egshape.frontends.onnx.spans import Lookup, Span
from egshape.ir.graph import Value


@dataclass(frozen=True, eq=False)
class Items:
    """A sequence of tensors whose length is known while the model is read. An optional value that is not there is
    None, as an operand that is left out."""

    dtype: str
    parts: tuple[Value, ...]


@dataclass(frozen=True, eq=False)
class Choice:
    """Integers that are the first of two constants where a condition of one element holds, else the second."""

    condition: Value
    numbers: tuple[tuple[int, ...], tuple[int, ...]]


Operand = Value | Items | None


Results = Callable[[Any, Node, Sequence[Operand]], list[Operand]]
"""What gives the results of a node of a scope, in ONNX's order."""


@dataclass
class Program:
    """What all blocks of one conversion share.

    lower: what gives the results of any node (``lowering.lower``); call: of one that runs on the host
    (``host.call``)."""

    model: Model
    lower: Results
    call: Results
    functions: Mapping[tuple[str, str], FunctionProto] = field(default_factory=dict)
    whole: frozenset[str] = frozenset()
    """The locations of nodes that are one op each, whatever their declaration says (``in_part``)."""
    shared: frozenset[tuple[str, str]] = frozenset()
    """Those of them that stay functions wherever they can."""
    derived: Functions = field(default_factory=Functions)
    bounds: Bounds = field(default_factory=Bounds)
    assumed: Bounds = field(default_factory=Bounds)
    """What facts beside the model say, which the model does not make sure of."""
    arrays: dict[Value, np.ndarray] = field(default_factory=dict)
    """Values that are constants."""
    relations: list[Relation] = field(default_factory=list)
    """What holds of data-dependent sizes."""
    hosted: list[tuple[str, str]] = field(default_factory=list)
    """Ops that became host calls, and where."""
    named: set[Value] = field(default_factory=set)
    forks: int = 0
    sizes: set[Dim] = field(default_factory=set)
    """Sizes of axes of values: none is negative."""
    joins: dict[Dim, frozenset[Dim]] = field(default_factory=dict)
    """Undecided sizes of broadcast axes, by the sizes that they are joined of."""
    spans: dict[Value, Span] = field(default_factory=dict)
    """Between which sizes the elements of integer tensors lie."""
    lookups: list[Lookup] = field(default_factory=list)
    lists: dict[Value, tuple[Relation, ...]] = field(default_factory=dict)
    """By distances from a list of intervals, the conditions that are met where they are 0."""
    choices: dict[Value, Choice] = field(default_factory=dict)
    """Vectors of integers that are one constant where a condition holds, else another."""
    spent: set[Value] = field(default_factory=set)
    """Places and conditions that became checks."""
    counts: dict[tuple[Value, object], Dim] = field(default_factory=dict)
    """How many elements of a value are so, by what is counted."""
    ranks: dict[str, int] = field(default_factory=dict)
    """Ranks that the model states, or that uses tell, by name; names of functions are others."""
    notes: list[str] = field(default_factory=list)
    """What to say of the model beside its graph."""
    told: dict[str, int] = field(default_factory=dict)
    """Those of them that are said beside the model, or that uses tell."""
    decided: dict[Relation, bool | None] = field(default_factory=dict)
    """Decisions, which are forgotten when something is learnt."""
