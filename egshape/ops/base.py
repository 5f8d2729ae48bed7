"""How an op is declared. One declaration says all that egshape knows about an op; the verifier, the printer, the
encoder, the interpreter, the docs and the fuzzer read it.

A declaration is a class body read once by ``@op``::

    @op("reverse", family="movement", operands=("x",), attrs={"dims": "axes"},
        names={"stablehlo": "reverse"}, doc="Reverse the order of elements along dims. StableHLO spec: reverse.")
    class Reverse:
        def reference(x, *, dims): ...    # numpy arrays in, numpy array (or a tuple of them) out

What the op requires of its operands, the type of its result and what it does to the elements of shape tensors stand in
its contract, in the file of its family under ``rulesets/ops/``; the reference is called only with sizes that it
allows. Only a user's op may have a function ``shape`` instead, from operand types to the type of the result, where an
axis whose size cannot be expressed is None and becomes a symbol; what it implies about its operands is then a rule with
``must_eq`` and the like (docs/rules.md).
What else is relied on of an op are its ``traits``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from egshape.dims import Dim, const
from egshape.errors import EgshapeError
from egshape.facts import Relation
from egshape.ir.graph import Op
from egshape.ir.types import TensorType
from egshape.ops.contracts import OpContract
from egshape.ops.traits import NO_TRAITS, Traits

if TYPE_CHECKING:
    from egshape.ops.shape_function import ShapeFunction
    from egshape.rulelang.contract_compile import Condition

ATTR_KINDS = ("axes", "sizes", "text", "dtype", "int", "bool", "float", "array", "record")
"""axes: tuple of static ints. sizes: tuple of Dims. text/dtype: str. array: numpy array. record: nested tuples of
str/int/bool/tuples (dimension numbers)."""

Loose = tuple[str, tuple[Dim | None, ...] | None]
"""What a shape function may give: dtype and shape; None for an axis that cannot be expressed, or for no known rank."""

Need = tuple[Dim, str]
"""A size, and the dtype whose range it must lie in."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """An element of a float tensor: the float nearest to ``num / den``, which is that itself where den is a power of
    two, if all that it needs fits."""

    num: Dim
    den: int = 1
    needs: tuple[Need, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether nothing was rounded."""
        return self.den & (self.den - 1) == 0

    def symbols(self) -> frozenset[str]:
        """The symbols of which it speaks."""
        return self.num.symbols()


Element = Dim | Relation | bool | Ratio | None
"""What is known of one element of a small integer or i1 tensor: a size, a condition on sizes, or nothing; of one of a
few floats what size it holds. An integer element e of dtype d stands for e wrapped to d: ring operations carry it on,
all others first require that it fits."""

ELEMENT_LIMIT = 256
"""Tensors with more elements than this are data, not shape code."""

FLOATS = 16
"""Float tensors with more elements than this hold no sizes."""


class ElementScope(Protocol):
    """What an ``elements`` function may ask: decisions, and to note that a size must fit its dtype."""

    def decide(self, relation: Relation) -> bool | None:
        """True or False if the relation holds at all, or at no admitted sizes, else None."""

    def require_fit(self, dim: Dim, dtype: str) -> None:
        """Note that the op relies on ``dim`` lying within the range of an integer dtype."""


@dataclass(frozen=True, slots=True)
class AttrDecl:
    """An attribute: its name, its kind (``ATTR_KINDS``) and its default (``...`` when it must be given)."""

    name: str
    kind: str
    default: Any = ...


@dataclass(frozen=True)
class OpDecl:
    """All that egshape knows about one op. See the module's docstring."""

    name: str
    family: str
    doc: str
    operands: tuple[str, ...]
    """Operand names; a last name that starts with ``*`` takes any number."""
    attrs: tuple[AttrDecl, ...]
    dynamic: tuple[str, ...]
    """``sizes`` attributes that may each be given by a trailing integer-vector operand, in this order."""
    regions: tuple[str, ...]
    shape: Callable[..., Any]
    reference: Callable[..., Any]
    elements: Callable[..., Any] | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    effect: bool = False
    """True if the op must stay though nobody reads its results (checks)."""
    body: Callable[..., Any] | None = None
    """The op in terms of others, for back ends that do not know it (``egshape.ops.custom``)."""
    custom: bool = False
    """True for an op that a user declared."""
    contract: OpContract | None = None
    """What the op requires and gives, as text (``rulesets/ops/``); None for a user's op whose ``shape`` says it."""
    traits: Traits = NO_TRAITS
    asserts: ShapeFunction | None = None
    """The shape function of a user's op, which says what it asserts of sizes."""

    @property
    def nested(self) -> bool:
        """True if its regions are programs of their own, not functions of scalars."""
        return bool(self.regions) and self.traits.regions != "scalars"

    @property
    def variadic(self) -> bool:
        """True if the last operand stands for any number of operands."""
        return bool(self.operands) and self.operands[-1].startswith("*")

    def requires(self, op: Op) -> list[Condition]:
        """The conditions on sizes under which one op of this name runs, but for those that hold by form. Only what
        contracts and shape functions say."""
        types = self._types(op)
        found: list[Condition] = []
        if self.contract is not None:
            found += self.contract.conditions(types, {**op.attrs, "regions": op.regions})
        if self.asserts is not None:
            found += self.asserts.conditions(types, op.attrs, _stated(op))
        return found

    def inferred(self, op: Op) -> list[Loose]:
        """The types of the results of one op of this name. Raises EgshapeError for operands that it cannot have."""
        types = self._types(op)
        if self.asserts is not None and self.contract is None:
            return typed(self.asserts.infer(types, op.attrs, _stated(op)))
        regions = {"regions": op.regions} if self.regions else {}
        return typed(self.shape(*types, **op.attrs, **regions))

    def _types(self, op: Op) -> list[TensorType]:
        fixed = op.operands if self.variadic else op.operands[: len(self.operands)]
        return [operand.type for operand in fixed]

    def attr(self, name: str) -> AttrDecl:
        """The declaration of one attribute. KeyError if there is none."""
        for decl in self.attrs:
            if decl.name == name:
                return decl
        raise KeyError(name)


def _stated(op: Op) -> list[Loose]:
    return [(value.type.dtype, value.type.shape) for value in op.results]


def typed(found: Any) -> list[Loose]:
    """What a shape function gives, as a list of dtypes and shapes."""
    return [
        (each.dtype, each.shape) if isinstance(each, TensorType) else each
        for each in (found if isinstance(found, list) else [found])
    ]


class Registry:
    """The declared ops by name. ``egshape.ops.REGISTRY`` holds the shipped ones."""

    def __init__(self) -> None:
        self._ops: dict[str, OpDecl] = {}
        self.version = 0
        """Changes with every declaration: what is derived from the declarations is kept by this."""

    def add(self, decl: OpDecl) -> None:
        """Declare an op; a user's op may be declared anew. Raises EgshapeError if the name is taken."""
        known = self._ops.get(decl.name)
        if known is not None and not (known.custom and decl.custom):
            raise EgshapeError(f"op {decl.name!r} is declared twice", code="op-declared-twice")
        self._ops[decl.name] = decl
        self.version += 1

    def drop(self, name: str) -> None:
        """Forget a user's op. Raises EgshapeError for one that is shipped or not declared."""
        if not self[name].custom:
            raise EgshapeError(f"op {name!r} is shipped with egshape", code="op-declaration")
        del self._ops[name]
        self.version += 1

    def __getitem__(self, name: str) -> OpDecl:
        try:
            return self._ops[name]
        except KeyError:
            raise EgshapeError(f"no op is named {name!r}", code="unknown-op") from None

    def __contains__(self, name: object) -> bool:
        return name in self._ops

    def __iter__(self) -> Any:
        return iter(self._ops.values())

    def by_frontend(self, frontend: str) -> dict[str, OpDecl]:
        """Ops by the name that a frontend gives them."""
        return {decl.names[frontend]: decl for decl in self if frontend in decl.names}


REGISTRY = Registry()


def held(contract: OpContract, reference: Callable[..., Any]) -> Callable[..., Any]:
    """A reference that refuses arrays of sizes that the contract does not allow."""

    def run(*arrays: Any, **attrs: Any) -> Any:
        contract.hold(arrays, attrs)
        return reference(*arrays, **attrs)

    return run


def concrete_attrs(attrs: Mapping[str, Any]) -> dict[str, Any] | None:
    """Attributes with every Dim as an int, or None if one is not constant."""
    out = {}
    for key, value in attrs.items():
        if isinstance(value, tuple) and value and all(isinstance(item, Dim) for item in value):
            numbers = tuple(item.const for item in value)
            if any(number is None for number in numbers):
                return None
            out[key] = numbers
        else:
            out[key] = value
    return out


def object_array(items: Sequence[Element], shape: tuple[int, ...]) -> np.ndarray:
    """An object array of elements (numpy would try to look inside a Dim)."""
    out = np.empty(len(items), dtype=object)
    for index, item in enumerate(items):
        out[index] = item
    return out.reshape(shape)


def as_dim(value: Dim | int) -> Dim:
    """A Dim from a Dim or an int."""
    return value if isinstance(value, Dim) else const(int(value))
