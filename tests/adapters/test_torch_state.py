"""A cache that each step changes in one place: where it lies, through each road of PyTorch."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: its back end is not tried")
pytest.importorskip("llvmlite", reason="compiling needs the extra llvm")

import egshape  # noqa: E402

nn = torch.nn
LONGEST = 64


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Nothing compiled before, nothing left behind."""
    egshape.torch.reset()
    torch.manual_seed(0)
    yield
    egshape.torch.reset()


class Step(nn.Module):  # type: ignore[misc, name-defined]
    """A token of attention over a static cache."""

    def __init__(self, how: str, width: int = 16, heads: int = 2, batch: int = 2) -> None:
        super().__init__()
        self.how, self.heads = how, heads
        self.into, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(batch, heads, LONGEST, width // heads))

    def forward(self, x: Any, place: Any) -> Any:
        q, k, v = self.into(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        for held, new in ((self.keys, k), (self.values, v)):
            if self.how == "index_copy":
                held.index_copy_(2, place, new)
            elif self.how == "index_put":
                held[:, :, place] = new
            else:
                held.copy_(torch.cat([held[:, :, 1:], new], 2))  # moved by one: not in place
        seen = torch.arange(LONGEST) <= place if self.how != "moved" else torch.arange(LONGEST) >= LONGEST - 1 - place
        mixed = nn.functional.scaled_dot_product_attention(q, self.keys, self.values, seen[None])
        return self.out(mixed.transpose(1, 2).flatten(2))


def _exported(model: Any, first: tuple[Any, ...]) -> Callable[..., Any]:
    fn = egshape.compile(egshape.torch.export(model, first))
    held = [model.keys, model.values]

    def run(x: Any, place: Any) -> Any:
        found = fn(x, place, *held, out=[None, *held])
        assert found[1] is held[0] and found[2] is held[1]
        return found[0]

    return run


ROADS: dict[str, Callable[..., Any]] = {
    "export": _exported,
    "backend": lambda model, first: torch.compile(model, backend="egshape"),
    "module": lambda model, first: egshape.torch.compile(model, (None, None)),
    "interpret": lambda model, first: torch.compile(model, backend="egshape", options={"target": "interpret"}),
}


@pytest.mark.parametrize(
    ("road", "how"),
    [(road, how) for how in ("index_copy", "index_put") for road in ROADS]
    + [("backend", "moved"), ("module", "moved")],
)
def test_64_steps_with_a_static_cache_are_eagers(road: str, how: str) -> None:
    model = Step(how).eval()
    eager = copy.deepcopy(model)
    memory = model.keys.data_ptr(), model.values.data_ptr()
    with torch.no_grad():
        run = ROADS[road](model, (torch.zeros(2, 1, 16), torch.tensor([0])))
        for number in range(LONGEST if road != "interpret" else 5):
            x, place = torch.randn(2, 1, 16), torch.tensor([number])
            torch.testing.assert_close(run(x, place), eager(x, place), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(model.keys, eager.keys)
    torch.testing.assert_close(model.values, eager.values)
    assert (model.keys.data_ptr(), model.values.data_ptr()) == memory
    assert not any(graph.fallback for graph in egshape.torch.report().graphs)


def test_a_cache_is_no_part_of_what_a_call_holds() -> None:
    model = Step("index_copy").eval()
    fn = egshape.compile(egshape.torch.export(model, (torch.zeros(2, 1, 16), torch.tensor([0]))))
    assert fn.manifest["over"] == {"keys.new": "keys", "values.new": "values"}
    (arena,) = [size for _, size in fn.memory.likely] or [0]
    assert arena < model.keys.nbytes


def test_a_cache_that_lies_apart_is_changed_too() -> None:
    """What is not contiguous is copied in and out."""

    def function(cache: Any, place: Any, x: Any) -> Any:
        cache.index_copy_(0, place, x)
        return cache.sum(0)

    fast = torch.compile(function, backend="egshape")
    for wide in (torch.zeros(6, 8), torch.zeros(8, 6).t()):
        exact = wide.clone()
        x, place = torch.randn(1, wide.shape[1]), torch.tensor([2])
        torch.testing.assert_close(fast(wide, place, x), function(exact, place, x))
        torch.testing.assert_close(wide, exact)
    assert not any(graph.fallback for graph in egshape.torch.report().graphs)


def _twice(c: Any, x: Any) -> Any:
    c[0] = x
    c[1] = c[0] * 2
    return c.sum(0)


def _old_and_new(c: Any, x: Any) -> Any:
    old = c * 3
    c[0] = x
    return old + c


def _exchanged(c: Any, x: Any) -> Any:
    old = c.clone()
    c[0], c[1] = old[1], old[0]
    return c


def _both(c: Any, x: Any) -> Any:
    c[-1] = x
    x.mul_(2)
    return c.sum()


def _added(c: Any, x: Any) -> Any:
    c.index_put_((torch.tensor([0, 0, 1]),), x.expand(3, -1), accumulate=True)
    return c.mean()


def _kept(c: Any, x: Any) -> Any:
    c[c > 0] = 0.5
    return c + x


def _every_other(c: Any, x: Any) -> Any:
    c[1::2] = x
    return None


def _through_a_view(c: Any, x: Any) -> Any:
    c.t()[0] = 1.0
    return c[1:], c.t()


CHANGES = (_twice, _old_and_new, _exchanged, _both, _added, _kept, _every_other, _through_a_view)
LAYOUTS: dict[str, Callable[[], Any]] = {
    "plain": lambda: torch.randn(4, 5),
    "turned": lambda: torch.randn(5, 4).t(),
    "every other": lambda: torch.randn(4, 10)[:, ::2],
    "a part": lambda: torch.randn(6, 5)[1:5],
}


@pytest.mark.parametrize("change", CHANGES, ids=lambda each: each.__name__.strip("_"))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_arguments_change_as_in_eager(change: Callable[[Any, Any], Any], layout: str) -> None:
    fast = torch.compile(change, backend="egshape", dynamic=True, options={"fallback": False})
    with torch.no_grad():
        for _ in range(2):
            ours = LAYOUTS[layout](), torch.randn(5)
            eager = tuple(map(copy.deepcopy, ours))
            found, wanted = fast(*ours), change(*eager)
            for one, two in zip((found, ours), (wanted, eager), strict=True):
                torch.testing.assert_close(one, two)
    assert not any(graph.fallback for graph in egshape.torch.report().graphs)


def test_one_tensor_given_twice_and_parts_that_overlap() -> None:
    def function(a: Any, b: Any) -> Any:
        a.index_fill_(0, torch.tensor([1]), 3.0)
        return a + b

    fast = torch.compile(function, backend="egshape")
    with torch.no_grad():
        ours = torch.randn(6, 4)
        eager = ours.clone()
        torch.testing.assert_close(fast(ours, ours), function(eager, eager))
        torch.testing.assert_close(fast(ours[:3], ours[2:5]), function(eager[:3], eager[2:5]))
        torch.testing.assert_close(ours, eager)


def test_a_compiled_module_that_is_dropped_is_freed() -> None:
    module = nn.Linear(4, 4)
    compiled = egshape.torch.compile(module, ({0: "n"},))
    compiled(torch.ones(3, 4))
    left = weakref.ref(compiled), weakref.ref(module)
    del compiled, module
    gc.collect()
    assert [each() for each in left] == [None, None]
