"""``torch.compile(backend="egshape")`` and ``egshape.torch.compile`` against eager."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: its back end is not tried")
pytest.importorskip("llvmlite", reason="compiling needs the extra llvm")

import egshape  # noqa: E402
from egshape.errors import EgshapeError, InvalidInput  # noqa: E402

nn = torch.nn


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Nothing compiled before, nothing left behind."""
    egshape.torch.reset()
    torch.manual_seed(0)
    yield
    egshape.torch.reset()


def net() -> Any:
    """A small network with a normalization."""
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4)).eval()


class Pooled(nn.Module):  # type: ignore[misc, name-defined]
    """The mean of embeddings that are not padding."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(20, 8)

    def forward(self, ids: Any) -> Any:
        kept = (ids != 0).unsqueeze(-1)
        return (self.table(ids) * kept).sum(1) / kept.sum(1).clamp(min=1)


class Recurrent(nn.Module):  # type: ignore[misc, name-defined]
    """A recurrent module over a sequence of any length."""

    def __init__(self, kind: Any, **options: Any) -> None:
        super().__init__()
        self.layers = kind(8, 6, batch_first=True, **options)

    def forward(self, x: Any) -> Any:
        out, last = self.layers(x)
        return out.tanh(), last[0] if isinstance(last, tuple) else last


class Branch(nn.Module):  # type: ignore[misc, name-defined]
    """Does another thing for one row."""

    def forward(self, x: Any) -> Any:
        return x * 2 if x.shape[0] == 1 else x + 1


class Added(nn.Module):  # type: ignore[misc, name-defined]
    """A sum that broadcasts."""

    def forward(self, x: Any, y: Any) -> Any:
        return (x + y).tanh()


class Turned(nn.Module):  # type: ignore[misc, name-defined]
    """A result that does not lie in the order of its axes."""

    def forward(self, x: Any) -> Any:
        return x.exp().transpose(0, 1)


class Twice(nn.Module):  # type: ignore[misc, name-defined]
    """A dict in, a tuple out; one of the results is an input's axis."""

    def forward(self, batch: dict[str, Any]) -> Any:
        return batch["x"] * 2, batch["x"].sum(1), batch["x"].shape[0]


def same(found: Any, wanted: Any) -> None:
    """Equal results."""
    for one, two in zip(
        found if isinstance(found, tuple) else (found,), wanted if isinstance(wanted, tuple) else (wanted,), strict=True
    ):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)


def test_one_graph_for_all_sizes_of_a_dynamic_axis() -> None:
    model = net()
    fast = torch.compile(model, backend=egshape.torch.backend, dynamic=True)
    with torch.no_grad():
        for rows in (2, 3, 7):
            x = torch.randn(rows, 8)
            same(fast(x), model(x))
    (graph,) = egshape.torch.report().graphs
    assert graph.role == "inference" and graph.symbols and not graph.fallback and graph.ops[1] <= graph.ops[0]
    assert graph.line and str(graph).startswith("inference at ")


def test_gradients_follow_eager() -> None:
    model = net().train()
    fast = torch.compile(model, backend=egshape.torch.backend, dynamic=True)
    for rows in (2, 5):
        x = torch.randn(rows, 8)
        grads = []
        for each in (model, fast):
            model.zero_grad()
            each(x).square().sum().backward()
            grads.append([parameter.grad.clone() for parameter in model.parameters()])
        same(tuple(grads[1]), tuple(grads[0]))
    assert [each.role for each in egshape.torch.report().graphs] == ["forward", "backward"]


@pytest.mark.long
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_recurrent_layers_in_training_are_one_op(kind: Any) -> None:
    model = Recurrent(kind).train()
    fast = torch.compile(model, backend=egshape.torch.backend, dynamic=True)
    for batch, length in ((2, 5), (3, 9)):
        x = torch.randn(batch, length, 8)
        found = []
        for each in (model, fast):
            model.zero_grad()
            with torch._dynamo.config.patch(allow_rnn=True):
                out, last = each(x)
            (out.square().sum() + last.sum()).backward()
            found.append((out, last, *(parameter.grad.clone() for parameter in model.parameters())))
        same(found[1], found[0])
    forward, backward, *more = egshape.torch.report().graphs
    assert not forward.fallback and not forward.error and (kind is nn.GRU or not more)
    assert backward.fallback == (f"egshape.{kind.__name__.lower()}_backward.default",)


@pytest.mark.long_but("pooled")
@pytest.mark.parametrize(
    ("model", "make", "axes"),
    [
        pytest.param(net, lambda b, s: (torch.randn(b, 8),), ({0: "b"},), id="layers"),
        pytest.param(Pooled, lambda b, s: (torch.randint(0, 20, (b, s)),), ({0: "b", 1: "s"},), id="pooled"),
        pytest.param(
            lambda: nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1)),
            lambda b, s: (torch.randn(b, 3, s + 2, s + 3),),
            ({0: "b", 2: "h", 3: "w"},),
            id="convolution",
        ),
        pytest.param(
            lambda: Recurrent(nn.LSTM), lambda b, s: (torch.randn(b, s + 1, 8),), ({0: "b", 1: "s"},), id="lstm"
        ),
        pytest.param(
            lambda: Recurrent(nn.LSTM, num_layers=2, bidirectional=True),
            lambda b, s: (torch.randn(b, s + 1, 8),),
            ({0: "b", 1: "s"},),
            id="both-ways",
        ),
        pytest.param(Turned, lambda b, s: (torch.randn(b, s),), ({0: "b", 1: "s"},), id="turned"),
        pytest.param(Twice, lambda b, s: ({"x": torch.randn(b, s)},), ({"x": {0: "b", 1: "s"}},), id="dict"),
        pytest.param(lambda: lambda x: x[x > 0], lambda b, s: (torch.randn(b, s),), ({0: "b", 1: "s"},), id="mask"),
    ],
)
def test_one_compile_serves_every_size(model: Callable[[], Any], make: Callable[..., Any], axes: Any) -> None:
    module = model()
    module = module.eval() if isinstance(module, nn.Module) else _Module(module)
    fast = egshape.torch.compile(module, axes)
    with torch.no_grad():
        for b, s in ((2, 5), (3, 7), (1, 1), (0, 3), (1, 6)):
            args = make(b, s)
            wanted = module(*args)
            found = fast(*args)
            same(found, wanted)
            if isinstance(found, torch.Tensor) and 1 not in found.shape and found.numel():
                assert found.stride() == wanted.stride()
    (graph,) = egshape.torch.report().graphs
    assert not graph.error


class _Module(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


def test_a_branch_over_a_size_is_reported_and_right() -> None:
    fast = egshape.torch.compile(Branch(), ({0: "b"},))
    for rows in (2, 1, 0, 5, 1):
        x = torch.randn(rows, 3)
        same(fast(x), Branch()(x))
    told = egshape.torch.report()
    assert len(told.graphs) == 2
    ((name, reason),) = told.notes
    assert name == "Branch" and "Eq(" in reason and "compiled anew" in str(told)


def test_what_an_assertion_of_torch_refuses_runs_in_eager() -> None:
    """Of axes without a size torch assumes that they are equal; one of them may be 1 nonetheless."""
    fast = egshape.torch.compile(Added(), ({0: "n"}, {0: "m"}))
    for n, m in ((3, 3), (1, 4), (4, 1), (0, 1)):
        x, y = torch.randn(n, 2), torch.randn(m, 2)
        same(fast(x, y), Added()(x, y))
    with pytest.raises(RuntimeError, match="must match"):
        fast(torch.randn(2, 2), torch.randn(3, 2))


def test_what_cannot_be_compiled_runs_in_torch_and_is_named() -> None:
    def function(x: Any) -> Any:
        return torch.linalg.matrix_exp(x).relu()

    fast = torch.compile(function, backend=egshape.torch.backend)
    x = torch.randn(3, 3)
    same(fast(x), function(x))
    (graph,) = egshape.torch.report().graphs
    assert any("matrix_exp" in name for name in graph.fallback), graph


class Encoder(torch.nn.Module):
    """A residual layer, a norm, a mean over the sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.norm, self.out = torch.nn.Linear(16, 16), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4)

    def forward(self, x: Any) -> Any:
        return self.out(torch.relu(self.norm(self.inner(x)) + x)).mean(1)


@pytest.mark.long
def test_48_shapes_are_one_graph_and_never_more_than_torchs_own() -> None:
    from torch._dynamo.testing import CompileCounterWithBackend

    shapes = [(batch, length) for batch in (1, 2, 3, 4, 5, 7, 8, 9) for length in (1, 2, 3, 5, 8, 13)]
    model = Encoder().eval()
    with torch.no_grad():
        fast = egshape.torch.compile(model, ({0: "b", 1: "s"},))
        for batch, length in (*shapes, (0, 3)):
            x = torch.randn(batch, length, 16)
            same(fast(x), model(x))
        assert len(egshape.torch.report().graphs) == 1
        egshape.torch.reset()
        ours = torch.compile(model, backend=egshape.torch.backend, dynamic=True)
        for shape in shapes:
            ours(torch.randn(*shape, 16))
        made = len(egshape.torch.report().graphs)
        torch._dynamo.reset()
        counter = CompileCounterWithBackend("aot_eager")
        theirs = torch.compile(model, backend=counter, dynamic=True)
        for shape in shapes:
            theirs(torch.randn(*shape, 16))
        assert made <= counter.frame_count


class Attending(nn.Module):  # type: ignore[misc, name-defined]
    """Attention: torch's own asks whether an axis is empty."""

    def __init__(self) -> None:
        super().__init__()
        self.into = nn.Linear(8, 24)

    def forward(self, x: Any) -> Any:
        q, k, v = self.into(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def test_attention_at_every_size_is_one_graph_and_its_gradient_is_torchs() -> None:
    model = Attending()
    whole = nn.functional.scaled_dot_product_attention
    fast = egshape.torch.compile(model, ({0: "b", 1: "s"},))
    with torch.no_grad():
        for batch, length in ((2, 5), (1, 7), (3, 1), (1, 1), (4, 6), (2, 5)):
            x = torch.randn(batch, length, 8)
            same(fast(x), model(x))
    assert len(egshape.torch.report().graphs) == 1
    assert nn.functional.scaled_dot_product_attention is whole
    x = torch.randn(2, 5, 8, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    fast(x).square().sum().backward()
    model(y).square().sum().backward()
    same(x.grad, y.grad)


def test_modules_of_a_class_that_torch_gave_up_are_compiled() -> None:
    """torch marks the code of a module that it skips (without ``allow_rnn``), or compiled too often."""
    model = Recurrent(nn.LSTM).eval()
    with torch.no_grad():
        torch.compile(model, backend="eager", dynamic=True)(torch.randn(2, 3, 8))
        fast = egshape.torch.compile(model, ({0: "b", 1: "s"},))
        for shape in ((2, 3, 8), (1, 5, 8), (4, 1, 8)):
            x = torch.randn(*shape)
            same(fast(x), model(x))
        for width in range(2, 14):  # more than torch compiles of one code
            layer = nn.Linear(width, 3)
            same(egshape.torch.compile(layer, ({0: "b"},))(torch.ones(2, width)), layer(torch.ones(2, width)))
    graphs = egshape.torch.report().graphs
    assert len(graphs) == 13 and not any(graph.error for graph in graphs)
    assert graphs[0].line and "adapters" not in graphs[0].line.replace("tests/adapters", "")


def test_sizes_and_orders_of_results_are_what_torch_states() -> None:
    """Results that lie in another order in memory, or are sizes, go by the side of plain ones."""

    class Several(nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return x.exp().transpose(0, 1), x.shape[0], (x * 2).bfloat16(), x > 0

    model = Several()
    with torch.no_grad():
        fast = egshape.torch.compile(model, ({0: "b"},))
        for rows in (3, 1, 0, 7):
            x = torch.randn(rows, 4)
            for found, wanted in zip(fast(x), model(x), strict=True):
                if isinstance(wanted, torch.Tensor):
                    same(found, wanted)
                    assert found.stride() == wanted.stride() or 1 in wanted.shape or not wanted.numel()
                else:
                    assert found == wanted


def test_what_trusts_its_inputs_is_never_run_with_invented_ones() -> None:
    """The gradient of this pool writes where the places that it saved say: with others the process ends."""

    def function(x: Any) -> Any:
        return nn.functional.adaptive_max_pool1d(x, 3).square().sum()

    fast = torch.compile(function, backend="egshape", dynamic=False)
    ours = torch.randn(3, 4, 7, requires_grad=True)
    eager = ours.detach().clone().requires_grad_()
    fast(ours).backward()
    function(eager).backward()
    same(ours.grad, eager.grad)
    *_, backward = egshape.torch.report().graphs
    assert backward.fallback == ("aten.adaptive_max_pool2d_backward.default",)


def test_a_program_with_a_call_that_trusts_its_inputs_is_not_compared() -> None:
    from egshape.validate import trusting, unfit

    class Unpacked(nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, data: Any, pivots: Any) -> Any:
            return torch.lu_unpack(data, pivots)[1]

    graph = egshape.torch.export(Unpacked(), torch.linalg.lu_factor(torch.randn(3, 3)))
    assert trusting(graph) == "aten.lu_unpack.default"
    assert "not a program's own" in unfit(graph) and not trusting(egshape.torch.export(net(), (torch.ones(2, 8),)))


def test_complex_numbers_and_zeros_without_memory() -> None:
    def function(x: Any, y: Any) -> Any:
        z = torch.complex(x, y)
        return (z * z).real, z.abs()

    fast = torch.compile(function, backend="egshape")
    ours = [torch.randn(5, requires_grad=True) for _ in range(2)]
    eager = [each.detach().clone().requires_grad_() for each in ours]
    for one, two in zip(fast(*ours), function(*eager), strict=True):
        same(one, two)
        one.sum().backward(retain_graph=True)
        two.sum().backward(retain_graph=True)
    for one, two in zip(ours, eager, strict=True):
        same(one.grad, two.grad)
    zeros = torch._efficientzerotensor((4,))
    same(torch.compile(lambda x: x + 1, backend="egshape")(zeros), torch.ones(4))


def test_ops_that_tokens_order_have_gradients() -> None:
    """torch passes None for a token."""

    def function(x: Any) -> Any:
        return torch.linalg.inv(x).square().sum() + torch.linalg.cholesky(x).sum()

    half = torch.randn(4, 4)
    ours = (half @ half.T + 4 * torch.eye(4)).requires_grad_()
    eager = ours.detach().clone().requires_grad_()
    torch.compile(function, backend="egshape")(ours).backward()
    function(eager).backward()
    same(ours.grad, eager.grad)


class Marked(torch.Tensor):
    """A tensor of a class of its own."""


def test_a_tensor_subclass_runs_in_torch_and_is_named() -> None:
    def function(x: Any) -> Any:
        return x * 2 + 1

    fast = torch.compile(function, backend=egshape.torch.backend)
    given = torch.ones(3).as_subclass(Marked)
    found = fast(given)
    assert type(found) is Marked and found.tolist() == [3, 3, 3]
    (graph,) = egshape.torch.report().graphs
    assert graph.fallback == ("<graph>",) and "a Marked, a subclass" in graph.error
    strict = torch.compile(function, backend=egshape.torch.backend, options={"fallback": False})
    with pytest.raises(Exception, match="a Marked, a subclass"):
        strict(torch.ones(4).as_subclass(Marked))
    assert fast(torch.nn.Parameter(torch.ones(2))).tolist() == [3, 3]


def test_a_branch_on_data_is_two_graphs() -> None:
    def function(x: Any) -> Any:
        return x * 2 if x.sum() > 0 else x - 1

    fast = torch.compile(function, backend=egshape.torch.backend)
    for x in (torch.ones(3), -torch.ones(3)):
        same(fast(x), function(x))
    assert len(egshape.torch.report().graphs) == 3  # the sum, and each arm


def test_an_op_that_nobody_knows_runs_in_torch_and_is_named() -> None:
    lib = torch.library.Library("egshape_tests", "FRAGMENT")
    lib.define("odd(Tensor x) -> Tensor")
    lib.impl("odd", lambda x: x + 1, "CPU")
    torch.library.register_fake("egshape_tests::odd", torch.empty_like, lib=lib)

    def function(x: Any) -> Any:
        return torch.ops.egshape_tests.odd(x * 2) * 3

    fast = torch.compile(function, backend=egshape.torch.backend)
    same(fast(torch.ones(3)), function(torch.ones(3)))
    (graph,) = egshape.torch.report().graphs
    assert graph.fallback == ("egshape_tests.odd.default",)


def test_inputs_that_do_not_fit_are_named() -> None:
    graph = egshape.torch.export(torch.nn.ReLU(), (torch.ones(3),), dynamic_shapes=({0: "n"},))
    run = egshape.compile(graph)
    for given, said in (
        (torch.ones(3, dtype=torch.float64), "wants elements of float32, got float64"),
        (torch.ones(3, 3), "wants rank 1"),
        (torch.ones(3).to_sparse(), "cannot be read as an array"),
    ):
        with pytest.raises(EgshapeError, match=said):
            run(given)


def test_options() -> None:
    def function(x: Any) -> Any:
        return x * 2

    fast = torch.compile(function, backend=egshape.torch.backend, options={"target": "interpret", "threads": 2})
    assert fast(torch.ones(2)).tolist() == [2, 2]
    wrong = torch.compile(function, backend=egshape.torch.backend, options={"speed": 3})
    with pytest.raises(Exception, match="no option 'speed'"):
        wrong(torch.ones(3))
    with pytest.raises(InvalidInput, match="target"):
        egshape.torch.compile(net(), target="tpu")


@pytest.mark.long
def test_torch_finds_it_by_name() -> None:
    code = "import torch; print('egshape' in torch.compiler.list_backends(exclude_tags=()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=200)
    if done.stdout.strip() != "True":
        pytest.skip("egshape is not installed with its entry points")


def _takes_anothers_update(a: Any, b: Any, i: Any, v: Any) -> Any:
    a.copy_(b.index_copy(0, i, v))
    return a.sum()


def _updates_a_parameter(a: Any, _: Any, i: Any, v: Any) -> Any:
    a.index_copy_(0, i, v)
    return a.sum()


@pytest.mark.parametrize("function", [_takes_anothers_update, _updates_a_parameter])
def test_arguments_that_cannot_be_computed_in(function: Callable[..., Any]) -> None:
    """The update is another tensor's, or the tensor is a parameter: eager allows both."""
    i, v = torch.tensor([1]), torch.full((1, 4), 7.0)
    both = []
    for run in (function, torch.compile(function, backend="egshape", options={"fallback": False})):
        a, b = torch.nn.Parameter(torch.zeros(3, 4)), torch.ones(3, 4)
        with torch.no_grad():
            both.append((run(a, b, i, v), a.detach(), b))
    for one, two in zip(*both, strict=True):
        assert torch.equal(one, two)


class Cached(nn.Module):  # type: ignore[misc, name-defined]
    """Attention over what it has seen and what is new."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, x: Any, keys: Any, values: Any) -> Any:
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, 2, d // 2).permute(2, 0, 3, 1, 4)
        keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        mask = torch.ones(t, keys.shape[2], dtype=torch.bool).tril(keys.shape[2] - t)
        out = nn.functional.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
        return out.transpose(1, 2).reshape(b, t, d), keys, values


def test_one_graph_serves_a_cache_that_begins_empty() -> None:
    """The strides of an empty tensor, and along an axis of size 1, say nothing."""
    model = Cached().eval()
    cache = {0: "b", 2: "past"}
    fast = egshape.torch.compile(model, ({0: "b", 1: "new"}, cache, cache))
    with torch.no_grad():
        for batch in (1, 2):
            keys = values = torch.zeros(batch, 2, 0, 4)
            for new in (5, 1, 1, 3):
                x = torch.randn(batch, new, 8)
                wanted = model(x, keys, values)
                for one, two in zip(wanted, fast(x, keys, values), strict=True):
                    torch.testing.assert_close(two, one, rtol=1e-4, atol=1e-5)
                _, keys, values = wanted
    assert len(egshape.torch.report().graphs) == 1 and not egshape.torch.report().notes


def test_compiling_ahead_changes_no_state() -> None:
    class Counts(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, x: Any) -> Any:
            self.seen += x.shape[0]
            return x * 2

    model = Counts()
    with torch.no_grad():
        egshape.torch.compile(model, ({0: "n"},))(torch.ones(1, 3))
    assert model.seen == 1


PARTS: dict[str, Callable[..., Any]] = {
    "split": lambda x: torch.split(x, [2, x.shape[0] - 2])[1],
    "chunk": lambda x: x.chunk(2)[1],
    "row": lambda x: x[x.shape[0] // 2],
    "columns": lambda x: (x[:, x.shape[1] // 2 :], x.split([1, x.shape[0] - 1])[1].t()),
    "spread": lambda x: x[x.shape[0] // 2 :][:1].expand(x.shape[1], -1),
    "of_result": lambda x: (x + 1)[:, x.shape[1] // 2 :],
}


@pytest.mark.parametrize("name", PARTS)
def test_views_that_hang_on_sizes_are_the_right_part(name: str) -> None:
    class Part(nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return PARTS[name](x)

    fast, large = egshape.torch.compile(Part(), ({0: "n", 1: "m"},)), torch.rand(12, 3)
    with torch.no_grad():
        for x in (torch.rand(4, 6), torch.rand(2, 2), torch.rand(7, 5), large[4:9]):
            torch.testing.assert_close(fast(x), Part()(x))
    assert not any(each.fallback for each in egshape.torch.report().graphs)


def test_what_torch_does_not_make_functional_runs_in_torch() -> None:
    class Grid(nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, theta: Any, x: Any) -> Any:
            return nn.functional.affine_grid(theta, list(x.shape), align_corners=True)

    fast = egshape.torch.compile(Grid(), ({0: "b"}, {0: "b", 2: "h", 3: "w"}))
    with torch.no_grad():
        for shape in ((2, 3, 5, 4), (1, 3, 1, 1), (1, 3, 1, 2)):
            args = torch.rand(shape[0], 2, 3), torch.rand(shape)
            torch.testing.assert_close(fast(*args), Grid()(*args))


@pytest.mark.parametrize("turned", [False, True])
def test_strides_that_a_program_names_are_those_of_its_tensor(turned: bool) -> None:
    def cut(x: Any) -> Any:
        return torch.as_strided(x + 1, (2, 2), (1, 1))

    torch._dynamo.reset()
    x = torch.arange(12.0).view(3, 4)
    x = x.t() if turned else x
    torch.testing.assert_close(torch.compile(cut, backend="egshape")(x), cut(x))
