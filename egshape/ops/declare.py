"""The decorator that declares an op: see ``egshape.ops.base``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from egshape.errors import EgshapeError
from egshape.ops.base import ATTR_KINDS, REGISTRY, AttrDecl, OpDecl, Registry, held
from egshape.ops.contracts import OpContract
from egshape.ops.elements import elements_of
from egshape.ops.traits import NO_TRAITS, Traits


def op(
    name: str,
    *,
    family: str,
    operands: Sequence[str],
    attrs: Mapping[str, Any] | None = None,
    dynamic: Sequence[str] = (),
    regions: Sequence[str] = (),
    names: Mapping[str, str] | None = None,
    effect: bool = False,
    traits: Traits = NO_TRAITS,
    doc: str,
    registry: Registry = REGISTRY,
) -> Callable[[type], type]:
    """Declare an op from a class body with ``reference`` and, for a user's op, ``shape``.

    ``attrs`` maps a name to a kind, or to ``(kind, default)``."""

    def declare(body: type) -> type:
        own = vars(body)
        reference, contract, elements = _function(own["reference"]), None, None
        declared = tuple(_attr(key, kind) for key, kind in (attrs or {}).items())
        if "shape" in own:
            shape = _function(own["shape"])
        else:
            family_file = body.__module__.rpartition(".")[2]
            defaults = {each.name: each.default for each in declared if each.default is not ...}
            contract = OpContract(name, family_file, _params(operands, attrs or {}, regions), defaults=defaults)
            shape, reference = contract.infer, held(contract, reference)
            elements = elements_of(name, contract, reference)
        registry.add(
            OpDecl(
                name,
                family,
                doc,
                tuple(operands),
                declared,
                tuple(dynamic),
                tuple(regions),
                shape,
                reference,
                elements,
                dict(names or {}),
                effect,
                contract=contract,
                traits=traits,
            )
        )
        return body

    return declare


def _params(operands: Sequence[str], attrs: Mapping[str, Any], regions: Sequence[str]) -> list[tuple[str, str]]:
    """Names and sorts of all that an op takes, as its contract names them."""
    found = [(name.removeprefix("*"), "Ts" if name.startswith("*") else "T") for name in operands]
    found += [(name, kind if isinstance(kind, str) else kind[0]) for name, kind in attrs.items()]
    return found + ([("regions", "regions")] if regions else [])


def _attr(name: str, kind: Any) -> AttrDecl:
    decl = AttrDecl(name, *kind) if isinstance(kind, tuple) else AttrDecl(name, kind)
    if decl.kind not in ATTR_KINDS:
        raise EgshapeError(f"attribute {name!r} has unknown kind {decl.kind!r}", code="op-declaration")
    return decl


def _function(member: Any) -> Callable[..., Any]:
    return member.__func__ if isinstance(member, staticmethod) else member
