"""Contracts of ops: the examples of each hold, and what breaks the law of their form is said with its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn
from unittest import mock

import numpy as np
import pytest

import egshape
from egshape.dims import Dim, const
from egshape.errors import CheckFailed, EgshapeError
from egshape.facts import Relation
from egshape.ir.graph import Op
from egshape.ir.types import TensorType
from egshape.ops import REGISTRY, elements
from egshape.ops.base import OpDecl
from egshape.ops.contracts import OpContract
from egshape.ops.shapecode import FUNCTIONS
from egshape.plan.analysis.conditions import conditions
from egshape.rulebook.trial.examples import relation_key
from egshape.rulelang.contract import Contract, ContractExample, contracts, read_contracts
from egshape.rulelang.examples import read_example
from egshape.rulelang.rulefile import Example
from egshape.rulelang.written import failing, last_op

FOLDER = Path(egshape.__file__).parent / "rulesets" / "ops"
FAMILIES = sorted(path.stem for path in FOLDER.glob("*.egg"))


def examples() -> Iterator[tuple[ContractExample, Contract]]:
    for family in FAMILIES:
        for contract in dict.fromkeys(contracts(family).values()):
            yield from ((each, contract) for each in contract.examples)


@pytest.mark.parametrize("example", [pytest.param(each, id=each.where) for each, _ in examples()])
def test_example(example: ContractExample) -> None:
    assert not failing(example, REGISTRY)
    if example.kind != "implies":
        return
    op = last_op(example, REGISTRY)
    found = {key_of(each.kind, each.lhs, each.rhs) for each in REGISTRY[op.name].requires(op)}
    wanted = read_example(Example(example.before, example.after, "", example.where), REGISTRY).right or ()
    assert isinstance(wanted, tuple)
    assert found == set(map(relation_key, wanted))


def key_of(kind: str, lhs: Dim, rhs: Dim) -> tuple[str, frozenset[str]]:
    if kind == "expands":
        return relation_key(Relation.of((lhs - 1) * (lhs - rhs), "==", 0))
    return relation_key(Relation(kind, lhs, rhs))


def test_each_declared_op_has_a_contract_and_nothing_else_says_its_type() -> None:
    shipped = [decl for decl in REGISTRY if not decl.custom]
    assert [decl.name for decl in shipped if decl.contract is None or decl.shape != decl.contract.infer] == []
    declared = {(decl.contract.family, decl.name) for decl in shipped if decl.contract is not None}
    written = {(family, op) for family in FAMILIES for op in contracts(family)}
    assert written - {("elementwise", "custom_binary")} == declared


@pytest.mark.parametrize("decl", [pytest.param(each, id=each.name) for each in REGISTRY if not each.custom])
def test_a_contract_speaks_before_the_reference_and_to_the_plan(decl: OpDecl, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the interpreter refuses, and what is required of one op, is asked of the contract."""

    def said(*_: object) -> NoReturn:
        raise CheckFailed("the contract was asked")

    monkeypatch.setattr(OpContract, "hold", said)
    monkeypatch.setattr(OpContract, "conditions", said)
    op = Op(decl.name, (), {}, (), ())
    for asked in (decl.reference, lambda: decl.requires(op), lambda: list(conditions(op))):
        with pytest.raises(CheckFailed, match="the contract was asked"):
            asked()


def test_each_contract_names_its_specification() -> None:
    every = (each for family in FAMILIES for each in contracts(family).values())
    sources = ("StableHLO spec:", "CHLO", "of our own")
    assert [str(each.at) for each in every if not any(source in each.comment for source in sources)] == []


def test_ranks_that_were_not_known_are_held_in_a_run() -> None:
    unknown = TensorType("f32", None)
    assert REGISTRY["add"].shape(unknown, unknown) == ("f32", None)
    with pytest.raises(CheckFailed, match="different ranks") as refused:
        REGISTRY["add"].reference(np.ones(2, np.float32), np.ones((2, 2), np.float32))
    assert refused.value.code == "shape-mismatch"


def test_one_message_when_read_and_run() -> None:
    attrs = {"starts": (0,), "limits": (4,), "strides": (1,)}
    said = "axis 0: the limit 4 is more than the size 3"
    with pytest.raises(EgshapeError, match=said):
        REGISTRY["slice"].shape(TensorType("f32", (const(3),)), **{key: (const(*item),) for key, item in attrs.items()})
    with pytest.raises(CheckFailed, match=said):
        REGISTRY["slice"].reference(np.ones(3), **attrs)


GOOD = """; f(x)    StableHLO spec: none
(contract f ((x T) (dims axes))
  :requires ((%s))
  :dtype (dtype x)
  :shape (shape x))
;; example  f(x: [a], [0])  =>  f32[a]
;; implies  f(x: [a], [0])
;; rejects  f(x: [a], [7])
"""


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ('(= (size x 0) 1) "sizes"', "compares sizes, which may not be known"),
        ('(= (rank y) 1) "rank"', "the name y is not known here"),
        ('(= (rnk x) 1) "rank"', "the function rnk is not known here (did you mean rank?)"),
        ('(= (rank x 2) 1) "rank"', "rank takes 1 arguments"),
        ('(distinct (shape x)) "distinct"', "is of the sort sizes, wanted is axes"),
        ('(distinct dims) "sizes" "labelled, and no relation of sizes"', "is no relation of two sizes"),
        ('(distinct dims) "of {dim}"', "the name dim is not known here (did you mean dims?)"),
        ("(distinct dims)", "is no condition with its message"),
        ('(distinct dims) "of {dims dims}"', "holds no expression"),
    ],
)
def test_wrong_condition(condition: str, message: str) -> None:
    with pytest.raises(EgshapeError) as error:
        made(GOOD % condition)
    assert message in str(error.value)
    assert error.value.where.startswith("my.egg:3:")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("((f (fit x) none) (g x none))", "(g x none) is no row for elements"),
        ("((f (fit x)))", "is no row for elements"),
        ("((f (fits x) none))", "the function fits is not known of elements (did you mean fit?)"),
        ("((f (fit y) none))", "y is no element"),
        ("f", "the name f is not known here"),
        ("((f (if (= x 1) x x) none))", "the name x is not known here"),
        ("(moved y)", "the name y is not known here"),
        ("(moved (hole x))", "the function hole is not known here (did you mean whole?)"),
        ("(moved (whole dims))", "dims is of the sort axes, wanted is T"),
        ("(rank x)", "(rank x) is of the sort int, wanted is elements"),
    ],
)
def test_wrong_elements(rows: str, message: str) -> None:
    text = (GOOD % '(distinct dims) "repeated"').replace("(shape x))", f"(shape x) :elements {rows})")
    text += ";; gives    f(dims([n], [], i64), [])  =>  [n]\n"
    with pytest.raises(EgshapeError) as error:
        made(text).elements(FUNCTIONS)
    assert message in str(error.value)


def test_elements_want_an_example() -> None:
    text = (GOOD % '(distinct dims) "repeated"').replace("(shape x))", "(shape x) :elements ((f x none)))")
    with pytest.raises(EgshapeError, match="has no line ';; gives'"):
        made(text)


CITED = re.compile(r"(StableHLO spec|CHLO): ([^;]*)")
SPECIFICATIONS = {"stablehlo": "StableHLO spec", "chlo": "CHLO"}


@pytest.mark.parametrize("name", sorted(decl.name for decl in REGISTRY if not decl.custom))
def test_the_section_of_the_specification_is_cited(name: str) -> None:
    """Each op by its name, in the specification of a dialect that has it; else it is said to be of our own."""
    decl = REGISTRY[name]
    assert decl.contract is not None
    comment = decl.contract.text.comment.replace("\n", " ")
    cited = {(where, each.split()[0]) for where, text in CITED.findall(comment) for each in text.split(", ")}
    wanted = {(SPECIFICATIONS[dialect], own) for dialect, own in decl.names.items() if dialect in SPECIFICATIONS}
    assert cited & wanted if wanted else "of our own" in comment


def test_what_needs_no_reduced_numbers() -> None:
    rules = {decl.name: decl.contract.elements(FUNCTIONS) for decl in REGISTRY if decl.contract is not None}
    assert {name for name, rule in rules.items() if rule is not None and rule.ring} == {
        "add", "subtract", "multiply", "negate", "square", "not"
    }  # fmt: skip


def test_all_that_is_known_of_elements_stands_in_contracts() -> None:
    given = [example for example, _ in examples() if example.kind == "gives"]
    assert len(given) > 45
    with mock.patch.object(elements, "_rule_of", lambda contract: None):
        found = [failing(example, REGISTRY) for example in given]
    assert all(why.endswith("gives []") for why in found)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("; f(x)    StableHLO spec: none\n", "", "nothing is said above"),
        (";; rejects", "; rejects", "has no line ';; rejects'"),
        (";; example", "; example", "has no line ';; example'"),
        (";; rejects", ";; refuses", "is no example"),
        ("  :shape (shape x))", ")", "lacks the type of the result"),
        (":dtype", ":type", ":type is no part of a contract"),
        ("(x T)", "(x U)", "is no parameter"),
        ("(dims axes)", "(dims int)", "is declared with other parameters"),
        ("contract f", "contract (f f)", "f has a contract already"),
        ("(contract", "(rule", "only contracts stand here"),
    ],
)
def test_wrong_form(old: str, new: str, message: str) -> None:
    assert made(GOOD % '(distinct dims) "repeated"').family == "my"
    with pytest.raises(EgshapeError, match=r"my\.egg:") as error:
        made((GOOD % '(distinct dims) "repeated"').replace(old, new, 1))
    assert message in str(error.value)


def made(text: str) -> OpContract:
    """The op f by this text, compiled."""
    found = OpContract("f", "my", (("x", "T"), ("dims", "axes")), lambda family: read_contracts(text, f"{family}.egg"))
    found.compiled  # noqa: B018
    return found
