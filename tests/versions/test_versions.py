"""Versions: the guard takes just the sizes that its facts say, and every version equals the reference."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import egshape
from egshape.adapters.versioned import conditions
from egshape.errors import EgshapeError, InvalidInput
from egshape.facts import Facts, Relation, parse_facts
from egshape.observed import MOST_LIKELY, Observed
from egshape.runtime.core.versioned import Condition, Version, VersionedFunction, chooser
from egshape.versions import FASTER, SHORTEST, Timed, propose, timed

ROWS = b"""func.func @main(%x: tensor<?x?xf32>) -> tensor<?xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %s = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<?x?xf32>, tensor<f32>) -> tensor<?xf32>
  return %s : tensor<?xf32>
}"""
ADD = b"""func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %0 = chlo.broadcast_add %x, %y : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}"""
GUARDS = (
    "arg0.0 == 1",
    "arg0.1 % 4 == 0",
    "arg0.1 % 4 == 3",
    "2 <= arg0.0",
    "arg0.0 <= 2",
    "arg0.0 in [0,1] or [4,5]",
    "arg0.0 == arg0.1",
    "arg0.0 == 1; arg0.1 % 2 == 0",
)
SIZES = (0, 1, 2, 3, 4, 5, 7, 8)


def _array(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


@pytest.mark.parametrize("guard", GUARDS)
def test_a_guard_takes_what_its_facts_say(guard: str) -> None:
    graph = egshape.load(ROWS, "stablehlo")
    guards = conditions(guard, graph)
    assert tuple(map(Condition.from_row, json.loads(json.dumps([each.to_row() for each in guards])))) == guards
    choose = chooser([guards])
    facts = [each for each in parse_facts(guard) if isinstance(each, Relation)]
    taken = 0
    for n, m in product(SIZES, SIZES):
        holds = all(each.holds({"arg0.0": n, "arg0.1": m}) for each in facts)
        assert choose([_array(n, m)]) == (0 if holds else 1), (n, m)
        taken += holds
    assert 0 < taken < len(SIZES) ** 2


@pytest.mark.parametrize(
    ("guard", "said"),
    [
        ("arg0.0*arg0.1 == 4", "is no guard"),
        ("arg0.0 <= arg0.1", "is no guard"),
        ("2*arg0.0 == arg0.1", "is no guard"),
        ("k == 4", "no size of an axis"),
        ("likely arg0.0 = 4", "is no guard"),
    ],
)
def test_what_is_no_guard(guard: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        conditions(guard, egshape.load(ROWS, "stablehlo"))


@pytest.mark.parametrize("inputs", [(), (3,), (np.float32(1),), (_array(4),)])
def test_what_has_no_such_size_is_for_the_general_function(inputs: tuple[Any, ...]) -> None:
    assert chooser([conditions("arg0.1 == 4", egshape.load(ROWS, "stablehlo"))])(inputs) == 1


@pytest.mark.parametrize(
    "row",
    [
        [],
        [[0, "0] or f()"], None, [], [1, 0]],
        [[0, 0], [0, "1"], [], [1, 0]],
        [[0, 0], None, [["1", 2]], [1, 0]],
        [[0, 0], None, [], [1, None]],
        [[0, True], None, [], [1, 0]],
    ],
)
def test_a_row_that_is_no_condition_becomes_no_code(row: list[Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        Condition.from_row(row)


@pytest.mark.parametrize("target", ["interpret", pytest.param("llvm", marks=pytest.mark.long)])
def test_versions_equal_the_reference_on_both_sides_of_each_guard(target: str) -> None:
    fn = egshape.compile(egshape.load(ROWS, "stablehlo"), target, versions=["arg0.0 == 1", "arg0.1 % 4 == 0"])
    used = set()
    for n, m in product(SIZES, SIZES):
        x = _array(n, m)
        used.add(id(fn.choose([x])))
        np.testing.assert_array_equal(fn(x), x.sum(1))
        np.testing.assert_array_equal(fn(arg0=x), x.sum(1))
    assert len(used) == len(fn.versions) == 3
    assert "version  arg0.0 == 1: " in repr(fn) and "version  any other size: " in repr(fn)
    assert target == "interpret" or all(each.code for each in fn.versions)


def test_a_wrong_size_is_an_error_with_versions_too() -> None:
    fn = egshape.compile(egshape.load(ADD, "stablehlo"), "interpret", versions=["arg0.0 == arg1.0", "arg1.0 == 1"])
    for n, m in product((0, 1, 2, 5), repeat=2):
        x, y = _array(n), _array(m)
        if n == m or 1 in (n, m):
            np.testing.assert_array_equal(fn(x, y), x + y)
        else:
            with pytest.raises(EgshapeError):
                fn(x, y)
    with pytest.raises(EgshapeError, match="rank"):
        fn(_array(2, 2), _array(2))


def test_what_versions_do_not_go_with(tmp_path: Path) -> None:
    graph = egshape.load(ROWS, "stablehlo")
    with pytest.raises(InvalidInput, match="versions are made by optimizing"):
        egshape.compile(egshape.optimize(graph), "interpret", versions=["arg0.0 == 1"])
    fn = egshape.compile(graph, "interpret", versions=["arg0.0 == 1"])
    with pytest.raises(EgshapeError, match="is interpreted, and an artifact holds native code"):
        fn.save(tmp_path / "a.egx")
    with pytest.raises(EgshapeError, match="2 versions, and C holds one"):
        fn.save(tmp_path / "c", "c")
    with pytest.raises(InvalidInput, match="versions is -1"):
        egshape.compile(graph, "interpret", versions=-1)


def test_sizes_are_counted_when_asked_and_become_likely() -> None:
    fn = egshape.compile(egshape.load(ROWS, "stablehlo"), "interpret", observe=True)
    for n, m in ((1, 4), (1, 4), (3, 4), (0, 5)):
        fn(_array(n, m))
    seen = fn.observed_sizes()
    assert seen.counts == {"arg0.0": {1: 2, 3: 1, 0: 1}, "arg0.1": {4: 3, 5: 1}}
    assert Observed.from_json(seen.to_json()) == seen
    assert seen.facts().symbol("arg0.0").likely == (1, 0, 3) and seen.facts().statements() == ()
    many = Observed({"n": {size: size + 1 for size in range(20)}}).facts().symbol("n").likely
    assert many == tuple(range(19, 19 - MOST_LIKELY, -1))


@pytest.mark.parametrize("text", ["", "[]", '{"sizes":{"n":{"-1":1}}}', '{"sizes":{"n":{"2":0}}}', '{"version":2}'])
def test_a_broken_file_of_sizes(text: str) -> None:
    with pytest.raises(InvalidInput):
        Observed.from_json(text)


@pytest.mark.long
def test_proposed_are_a_broadcast_that_does_not_expand_and_likely_sizes() -> None:
    graph = egshape.load(ADD, "stablehlo")
    found = propose(graph, most=3)
    assert found and any(each.bytes > 0 for each in found)
    assert {each.guard for each in found} <= {"arg0.0 == 1", "arg1.0 == 1", "arg0.0 == arg1.0", "arg1.0 == arg0.0"}
    likely = propose(egshape.load(ROWS, "stablehlo"), Facts.parse("likely arg0.1 = 4, 16"), most=2)
    assert [each.guard for each in likely] == ["arg0.1 == 4", "arg0.1 == 16"]
    assert propose(egshape.load(ROWS, "stablehlo"), most=1, seconds=0) == ()


@pytest.mark.long
@pytest.mark.parametrize(
    ("likely", "best"),
    [
        ((), "arg0.0 == arg1.0; arg0.1 == arg1.1"),
        (("likely arg1.0 = 1", "likely arg0.0 = 8"), "arg1.0 == 1; arg0.1 == arg1.1"),
        (("likely arg1.0 = 1, 8", "likely arg0.0 = 8"), "arg0.0 == arg1.0; arg0.1 == arg1.1"),
    ],
)
def test_broadcasts_are_guessed_together_by_what_is_saved(likely: tuple[str, ...], best: str) -> None:
    graph = egshape.load(ADD.replace(b"<?x", b"<?x?x"), "stablehlo")
    found = propose(graph, Facts.parse(*likely), most=8)
    assert max(found, key=lambda each: each.bytes).guard == best
    x = _array(8, 3)
    fn = egshape.compile(graph, "interpret", versions=[best])
    for y in (x, x[:1], x[:, :1], x[:1, :1]):
        np.testing.assert_array_equal(fn(x, y), x + y)


def test_likely_sizes_follow_equations() -> None:
    from egshape.egraph.cost import likely_sizes

    facts = Facts.parse("a*b == m", "likely a = 4", "likely b = 6", "m + 1 == k")
    assert likely_sizes(facts, ["a", "b", "k", "m", "z"]) == {"a": 4, "b": 6, "m": 24, "k": 25, "z": 64}
    assert likely_sizes(Facts.parse("a*b == m", "likely a = 4, 5", "likely m = 24"), ["b"]) == {"b": 6}
    assert likely_sizes(Facts.parse("a*b == m", "likely a = 5", "likely m = 24"), ["b"]) == {"b": 64}
    assert likely_sizes(Facts.parse("a*b == m", "likely a = 0", "likely m = 0"), ["b"]) == {"b": 64}
    assert likely_sizes(Facts.parse("a + 2 == b", "likely b = 1"), ["a"]) == {"a": 64}


def test_likely_sizes_are_sizes_that_facts_admit() -> None:
    from egshape.egraph.cost import likely_sizes

    def of(*facts: str) -> int:
        return likely_sizes(Facts.parse(*facts), ["n"])["n"]

    assert of("n % 7 == 3") == 59 and of("n % 100 == 7") == 7 and of("n % 100 == 7", "n >= 50") == 107
    assert of("likely n = 4, 8", "n == 8") == 8 and of("likely n = 4, 8", "n == 5") == 5
    assert of("likely n = 3, 6", "n % 2 == 0") == 6


@pytest.mark.parametrize(
    ("general", "version", "elsewhere", "pays"),
    [
        (FASTER * 1e-4, 1e-4, SHORTEST, True),
        (FASTER * 0.99e-4, 1e-4, SHORTEST, False),
        (1e-3, 1e-4, SHORTEST * 0.99, False),  # choosing would take more than 2 % of a call elsewhere
    ],
)
@pytest.mark.long
def test_proposed_versions_stay_where_they_are_seen_to_pay(
    general: float, version: float, elsewhere: float, pays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    time = Timed(general, version, elsewhere)
    assert time.pays == pays
    monkeypatch.setattr("egshape.versions.timed", lambda *_: time)
    fn = egshape.compile(egshape.load(ROWS, "stablehlo"), "llvm", versions=1, assume="likely arg0.1 = 4")
    assert [each.guard for each in fn.versions] == ["arg0.1 == 4"] * pays + [""]


@pytest.mark.long
def test_versions_are_timed_at_sizes_of_their_guards() -> None:
    graph = egshape.load(ROWS, "stablehlo")
    fn = egshape.compile(graph, "llvm", versions=["arg0.1 == 4"])
    found = timed(graph, fn.versions[0], fn.versions[-1].function, Facts.parse("likely arg0.0 = 1000"))
    assert found is not None and min(found.general, found.version, found.elsewhere) > 0
    large = timed(graph, fn.versions[0], fn.versions[-1].function, Facts.parse("likely arg0.0 = 100000000"))
    assert large is None


class _Fails:
    """A function of an artifact that fails once it has begun."""

    def __init__(self, calls: list[str], name: str, fails: bool, acts: bool = False) -> None:
        self.calls, self.name, self.fails = calls, name, fails
        self.manifest = {"host_calls": [{}] if acts else []}

    def __call__(self, *_: Any, **__: Any) -> str:
        self.calls.append(self.name)
        if self.fails:
            raise ValueError(self.name)
        return self.name

    def ordered(self, inputs: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        return inputs


@pytest.mark.parametrize(("acts", "out", "again"), [(False, False, True), (False, True, False), (True, False, False)])
def test_what_may_have_changed_something_is_not_run_again(acts: bool, out: bool, again: bool) -> None:
    calls: list[str] = []
    first: Any = _Fails(calls, "version", True, acts)
    last: Any = _Fails(calls, "general", False, acts)
    versions = [Version("n % 8 == 0", first, (Condition((0, 0), divisor=(8, 0)),)), Version("", last)]
    function = VersionedFunction(versions)
    named = {"out": [np.zeros(8, np.float32)]} if out else {}
    if again:
        assert function(np.zeros(8, np.float32), **named) == "general"
    else:
        with pytest.raises(ValueError, match="version"):
            function(np.zeros(8, np.float32), **named)
    assert calls == ["version", "general"][: 1 + again]
