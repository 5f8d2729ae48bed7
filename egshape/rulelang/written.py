"""Ops that a user declares as text alone: contracts with a ``:body`` of other ops, which says what they compute.

docs/rules.md ("An op of your own, as text") is for those who write one. The examples below a contract are tried when
its file is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from egshape.dims import const
from egshape.dims.text import DECLARED
from egshape.errors import EgshapeError
from egshape.ir.expand import build_body
from egshape.ir.graph import Graph, Op
from egshape.ir.interpret import interpret
from egshape.ir.types import TensorType, dtype_name
from egshape.ops import REGISTRY
from egshape.ops.base import AttrDecl, OpDecl, Registry, held
from egshape.ops.contracts import OpContract
from egshape.ops.custom import check_names
from egshape.ops.elements import elements_of
from egshape.rulelang.contract import Contract, ContractExample, name_of, read_contracts, wrong
from egshape.rulelang.contract_expr import Compiled, Expressions, taken
from egshape.rulelang.contract_sizes import SIZES
from egshape.rulelang.examples import build_example, example_elements, read_example
from egshape.rulelang.rulefile import Example
from egshape.rulelang.sexpr import Atom, List, SExpr
from egshape.rulelang.size_functions import size_functions


def custom_ops(path: str | Path, registry: Registry = REGISTRY) -> tuple[str, ...]:
    """Declare the ops of a file, each a contract with ``:body``; their names. A line `; needs: round_up.egg` names
    files beside it whose size functions it uses.

    Raises EgshapeError (code ``rules``) with file and line for what breaks the law of contracts, for an example that
    does not hold, and for a body that gives something else than the contract says; nothing is declared then.

    Examples:
        >>> import egshape
        >>> egshape.custom_ops("table_sum.egg")  # of examples/gallery
        ('table_sum',)
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise EgshapeError(f"cannot be read: {error}", where=str(file), code="read") from error
    with size_functions(_needs(text, file.parent)) as functions:
        for name in filter(taken, functions):
            raise EgshapeError(f"contracts have a function {name}", where=str(file), hint="rename yours", code="rules")
        return _added(read_contracts(text, file.name), registry)


def _needs(text: str, folder: Path) -> list[Path | str]:
    """What a file of contracts names in lines `; needs: round_up.egg`: rulesets that declare size functions."""
    items = [item for line in _NEEDS.findall(text) for item in re.split(r"[\s,]+", line.strip())]
    return [folder / item if item.endswith(".egg") else item for item in items]


def _added(found: Mapping[str, Contract], registry: Registry) -> tuple[str, ...]:
    before = {name: registry[name] for name in found if name in registry}
    added: list[str] = []
    try:
        for name, contract in found.items():
            registry.add(_declared(name, contract, registry))
            added.append(name)
        for contract in dict.fromkeys(found.values()):
            for example in contract.examples:
                if why := failing(example, registry) or _body_fault(example, registry):
                    raise EgshapeError(why, where=example.where, code="rules")
    except EgshapeError:
        for name in added:
            registry.drop(name)
            if name in before:
                registry.add(before[name])
        raise
    return tuple(found)


_NEEDS = re.compile(r"^; *needs: *(.+)$", re.MULTILINE)


def last_op(example: ContractExample, registry: Registry) -> Op:
    """The op that an example applies. Raises EgshapeError where its contract refuses it."""
    line = read_example(Example(example.before, "", "", example.where), registry)
    return build_example(line, registry, right=False)[0].ops[-1]


def failing(example: ContractExample, registry: Registry) -> str:
    """Why an application does not have the type that an example states, or is not refused; "" if all is right."""
    if example.kind == "gives":
        line = read_example(Example(example.before, "", "", example.where), registry)
        given = example_elements(line, registry)
        return "" if given == example.after else f"{example.before} gives {given}"
    try:
        op = last_op(example, registry)
    except EgshapeError as error:
        refused = example.kind == "rejects" and error.code == "invalid-op"
        return "" if refused else f"{example.before} is refused: {error}"
    if example.kind == "rejects":
        return f"{example.before} is not refused"
    given = ", ".join(str(value.type) for value in op.results)
    return f"{example.before} gives {given}" if example.kind == "example" and given != example.after else ""


def _body_fault(example: ContractExample, registry: Registry) -> str:
    """How the type of an example's body differs from that of the contract, "" if it does not."""
    if example.kind != "example":
        return ""
    op = last_op(example, registry)
    body = build_body(registry[op.name], [operand.type for operand in op.operands], op.attrs, registry)
    given, wanted = ([str(value.type) for value in values] for values in (body.results, op.results))
    said = f"the body of {example.before} gives {', '.join(given)}, the contract says {', '.join(wanted)}"
    return "" if given == wanted else said


def _declared(name: str, contract: Contract, registry: Registry) -> OpDecl:
    operands = tuple(f"*{param}" if sort == "Ts" else param for param, sort in contract.params if sort in ("T", "Ts"))
    attrs = tuple(AttrDecl(param, sort) for param, sort in contract.params if sort not in ("T", "Ts"))
    check_names(name, operands, {attr.name: attr.kind for attr in attrs})
    code = contract.part(":body")
    if code is None or any(sort == "regions" for _, sort in contract.params):
        raise wrong(f"{name} has no body, or regions", contract.at, "say with :body what it computes from its operands")
    own = OpContract(name, "custom", contract.params, lambda family: {name: contract})
    body = _compiled(name, contract, code, registry)
    own.compiled  # noqa: B018  what breaks the law is said when the file is read

    def reference(*arrays: np.ndarray, **given: Any) -> Any:
        types = [TensorType(dtype_name(array.dtype), tuple(map(const, array.shape))) for array in arrays]
        sizes = {attr.name for attr in attrs if attr.kind == "sizes"}
        known = {key: tuple(map(const, item)) if key in sizes else item for key, item in given.items()}
        block = build_body(registry[name], types, known, registry)
        return interpret(
            Graph(name, block, tuple(f"{k}" for k in range(len(block.results)))), arrays, registry=registry
        )

    checked = held(own, reference)
    return OpDecl(
        name=name,
        family="custom",
        doc=contract.comment,
        operands=operands,
        attrs=attrs,
        dynamic=(),
        regions=(),
        shape=own.infer,
        reference=checked,
        elements=elements_of(name, own, checked),
        names={"custom_call": name},
        body=body,
        custom=True,
        contract=own,
    )


def _compiled(name: str, contract: Contract, code: SExpr, registry: Registry) -> Callable[..., Any]:
    """The function ``body(b, *operands, **attrs)`` of an expression of ops."""
    params = [f"*{param}" if sort == "Ts" else param for param, sort in contract.params]
    scope = {
        param: Compiled(f"f_typed({param})" if sort == "Ts" else f"f_type_of({param})" if sort == "T" else param, sort)
        for param, sort in contract.params
    }
    text = f"lambda f_b, {', '.join(params)}: {_value(code, scope, registry)}"
    names = {
        **{f"f_{key}": each for key, each in {**DECLARED.get(), **SIZES}.items()},
        "f_type_of": lambda value: SIZES["operand"](value.type),
    }
    made: Callable[..., Any] = eval(compile(text, f"<body of {name}>", "eval"), names)  # from a checked text
    return made


def _value(item: SExpr, scope: Mapping[str, Compiled], registry: Registry) -> str:
    """The Python of an expression of ops: (OP OPERAND ... :ATTRIBUTE EXPRESSION ...), an operand, or a number: of the
    type of another operand, or a scalar, (const NUMBER DTYPE)."""
    if isinstance(item, Atom):
        sort = scope[item.text].sort if item.text in scope else ""
        if sort in ("T", "Ts"):
            return f"*{item.text}" if sort == "Ts" else item.text
        if not sort and _is_number(item.text):
            return item.text
        raise wrong(f"{item} is no operand", item.at, f"operands are {', '.join(scope)}, and numbers")
    assert isinstance(item, List)
    if item.head == "const" and len(item.items) == 3 and _is_number(str(item.items[1])):
        return f"f_b.const({item.items[1]}, {Expressions(scope).of(item.items[2], 'dtype')})"
    if item.head not in registry:
        raise wrong(f"no op is named {item.head or item}", item.at, "write (OP OPERAND ... :ATTRIBUTE EXPRESSION ...)")
    decl, rest, args = registry[item.head], list(item.items[1:]), list[str]()
    while rest and not str(rest[0]).startswith(":"):
        args.append(_value(rest.pop(0), scope, registry))
    if len(rest) % 2:
        raise wrong(f"an attribute of {item.head} has no expression", item.at, "write :ATTRIBUTE EXPRESSION")
    for key, given in zip(rest[::2], rest[1::2], strict=True):
        args.append(f"{str(key)[1:]}={_attribute(decl, str(key)[1:], given, scope)}")
    return f"f_b.{item.head}({', '.join(args)})"


def _attribute(decl: OpDecl, key: str, given: SExpr, scope: Mapping[str, Compiled]) -> str:
    if key in decl.regions:
        return repr(name_of(given))
    kind = next((attr.kind for attr in decl.attrs if attr.name == key), None)
    if kind is None:
        known = (*(attr.name for attr in decl.attrs), *decl.regions)
        raise wrong(f"{decl.name} has no attribute {key}", given.at, f"it has {', '.join(known)}" if known else "")
    return Expressions(scope).of(given, kind)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
