"""What the other tests of this folder let ``check_launch`` run thread after thread, run as printed text: the tests
themselves say what the results must be."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from egshape.errors import Unsupported
from egshape.lower.cuda.kernel import kernel
from egshape.plan.ir.launch import Launch
from egshape.plan.ir.loops import Buffer
from tests.cuda.text import ORDERS, Texts

pytestmark = pytest.mark.long  # test_text.py and test_text_models.py run a little of it

Check = Callable[[Launch, Mapping[Buffer, np.ndarray], Mapping[str, int]], None]


class _Seen(Exception):
    """A launch was noted, and the test is left."""


def _modules() -> Iterator[ModuleType]:
    """The modules of tests that check launches."""
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        if path.stem != Path(__file__).stem and "check_launch" in path.read_text():
            yield importlib.import_module(f"tests.cuda.{path.stem}")


def _calls(module: ModuleType) -> Iterator[tuple[str, Callable[[], None]]]:
    """Its tests with their arguments, those that take no fixtures and do not look for races."""
    for name, test in vars(module).items():
        if not name.startswith("test_") or not callable(test) or test.__module__ != module.__name__:
            continue
        if "Race" in inspect.getsource(test) or "check_launch" not in _reached(test, module):
            continue
        axes = []
        for mark in getattr(test, "pytestmark", ()):
            if mark.name != "parametrize":
                continue
            said = mark.args[0]
            names = [each.strip() for each in said.split(",")] if isinstance(said, str) else list(said)
            axes.append(
                [
                    dict(zip(names, values if len(names) > 1 else (values,), strict=True))
                    for values in (_values(each) for each in mark.args[1])
                ]
            )
        for chosen in product(*axes):
            given = {key: value for each in chosen for key, value in each.items()}
            if given.keys() == inspect.signature(test).parameters.keys():
                with_ = "-".join(str(value) for value in given.values())
                yield f"{module.__name__.rsplit('.', 1)[1]}.{name}[{with_}]", partial(test, **given)


def _values(each: Any) -> Any:
    return each.values if hasattr(each, "values") and hasattr(each, "marks") else each


def _reached(test: Callable[..., object], module: ModuleType) -> set[str]:
    """Names that a test and the functions of its module that it calls use."""
    found: set[str] = set()
    todo: list[Any] = [test]
    while todo:
        names = set(todo.pop().__code__.co_names)
        todo += [
            vars(module)[name]
            for name in names - found
            if inspect.isfunction(vars(module).get(name)) and vars(module)[name].__module__ == module.__name__
        ]
        found |= names
    return found


CALLS = {name: (module, call) for module in _modules() for name, call in _calls(module)}


@pytest.fixture(scope="module")
def ready(texts: Texts) -> Texts:
    """The launches that tests meet first, compiled together."""
    found: list[Launch] = []

    def note(launch: Launch, *_: object) -> None:
        found.append(launch)
        raise _Seen

    with pytest.MonkeyPatch.context() as patch:
        for module, call in CALLS.values():
            patch.setattr(module, "check_launch", note)
            try:
                call()
            except _Seen:
                continue
    texts.compile(kernel(each, "k") for each in found)
    return texts


def _as_text(texts: Texts) -> Check:
    def check(launch: Launch, arrays: Mapping[Buffer, np.ndarray], sizes: Mapping[str, int]) -> None:
        try:
            made = kernel(launch, "k")
        except Unsupported:
            pytest.skip("not printed")
        needed = [each for each in made.buffers if each not in arrays]
        assert not needed, f"no contents of {needed[0].name}"
        before = {buffer: array.copy() for buffer, array in arrays.items()}
        results: list[Sequence[np.ndarray]] = []
        for order in ORDERS:
            held = {buffer: array.copy() for buffer, array in before.items()}
            texts.run_launch(launch, made, held, sizes, order)
            results.append([held[buffer] for buffer in made.buffers])
        for other in results[1:]:
            for buffer, one, two in zip(made.buffers, results[0], other, strict=True):
                assert one.tobytes() == two.tobytes(), f"{buffer.name} depends on the order of threads"
        for buffer, array in zip(made.buffers, results[0], strict=True):
            arrays[buffer][...] = array

    return check


@pytest.mark.parametrize("name", CALLS)
def test_launches(name: str, ready: Texts, monkeypatch: pytest.MonkeyPatch) -> None:
    module, call = CALLS[name]
    monkeypatch.setattr(module, "check_launch", _as_text(ready))
    call()
