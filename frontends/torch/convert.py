"""An exported program becomes a graph: its inputs and their symbols, the nodes in order, and what it changes."""

from __future__ import annotations

import inspect
import operator
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

from egshape.dims import Dim, const, floordiv, mod, symbol
from egshape.errors import EgshapeError, InternalError, InvalidInput, Unsupported
from egshape.facts import Facts, Relation, SymbolFacts
from egshape.frontends.torch import composites, guards, host, ops  # noqa: F401  (ops: declares the ops)
from egshape.frontends.torch.axes import Axis, Places, label_of, linear
from egshape.frontends.torch.held import NEW, Held
from egshape.frontends.torch.higher import HIGHER
from egshape.frontends.torch.nonempty import nonempty
from egshape.frontends.torch.registry import COMPOSITES, HANDLERS, NoLowering
from egshape.frontends.torch.scope import Call, Program, Scope
from egshape.frontends.torch.stand_ins import FILE, as_themselves
from egshape.frontends.torch.symbolic import SYMBOLIC
from egshape.frontends.torch.types import array_of, dim_of, dtype_of
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Block, Graph, Location, Value

_MEMORY = frozenset(("layout", "device", "pin_memory", "memory_format", "non_blocking"))
"""Arguments that say where and how elements lie."""

_FRAME = re.compile(r'File "(.*?)", line (\d+), in')

_CALLERS = str(Path(inspect.getfile(EgshapeError)).parent / "adapters")
"""Files of ours that call a model."""

_LARGE = 2**31 - 1
"""No axis is longer: an upper bound from here on says nothing."""

MADE_UP = 2
"""torch gives a size this lower bound where its author gave none, and does not enforce it."""


def read(
    exported: Any,
    name: str,
    places: Places | None = None,
    *,
    trained: bool = False,
    whole: bool = False,
    held: Facts | None = None,
) -> Graph:
    """The graph of a ``torch.export.ExportedProgram``: its inputs are the user's, flattened, then the buffers that it
    changes, and its parameters if it is to be ``trained``; its outputs the user's, then the new values of these
    buffers. Other parameters and buffers are constants on torch's memory.

    places: what the author says of axes; equal names are equal sizes, and what is said is checked at entry.
    whole: ops that are several of ours stay one composite each, which goes out as the call that it was.
    held: facts that came with the program, whose symbols name sizes too.

    Raises EgshapeError for what has no graph, naming the node and the model's line."""
    program = Program(whole=whole)
    scope = Scope(program, BlockBuilder(decide=program.bounds.decide))
    decomposed = _decomposed(exported)
    as_themselves(decomposed)
    reader = Reader(decomposed, scope)
    reader.inputs(places or {}, held or Facts(), trained=trained)
    notes = _entry_checks(exported, decomposed, reader, places or {})
    reader.nodes()
    results, names = reader.outputs()
    body = scope.builder.finish(results)
    facts = _with(held or Facts(), facts_of(reader.given, program), body)
    metadata = {"format": "torch", "host_calls": tuple(program.hosted), "notes": tuple(notes)}
    return Graph(name, body, tuple(names), facts, metadata, own=Held(reader.state))


def _decomposed(exported: Any) -> Any:
    """A program in terms of the declared ops. Some decompositions ask whether a tensor is empty, and give as many
    elements of an empty one as of others. Raises Unsupported with torch's reason."""
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    try:
        try:
            return exported.run_decompositions(dict(_table()))
        except GuardOnDataDependentSymNode:
            with nonempty():
                return exported.run_decompositions(dict(_table()))
    except (RuntimeError, AssertionError) as error:  # torch's own are of these
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise Unsupported(f"torch does not decompose the program: {reason}", hint="see torch's message") from None


def _with(held: Facts, found: Facts, body: Block) -> Facts:
    """The facts of a program with those that came with it and speak of its sizes."""
    known = {each.name for each in body.symbols}
    said = [each for each in held.statements() if each.symbols() <= known]
    out = found.with_relations(said)
    for each in held.symbols:
        if each.name in known and each.likely:
            out = out.with_symbol(each.name, likely=each.likely)
    return out


@cache
def _table() -> Mapping[Any, Any]:
    """What torch decomposes: all that it can but for the declared ops. torch takes a second to list it."""
    import torch

    return {op: how for op, how in torch.export.default_decompositions().items() if scope_name(op) not in HANDLERS}


class Reader:
    """The nodes of one program on their way into a block. ``values`` hold what each node gives: values, sizes,
    numbers, lists of them."""

    def __init__(self, exported: Any, scope: Scope) -> None:
        self.exported = exported
        self.scope = scope
        self.values: dict[Any, Any] = {}
        self.given: list[Value] = []
        """The inputs."""
        self.by_name: dict[str, Any] = {}
        """What the placeholders of the user's inputs became."""
        self.state: dict[str, Any] = {}
        """Tensors of the model that are inputs."""
        self.asked: list[tuple[Relation, str]] = []
        """What sizes of inputs must fulfil to be what the author says that they are, each with its message."""
        self._held: dict[int, Value] = {}

    # -- inputs ------------------------------------------------------------------------------------------------

    def inputs(self, places: Places, held: Facts, *, trained: bool) -> None:
        """The user's inputs, then changed buffers and parameters that are trained, then constants."""
        signature = self.exported.graph_signature
        nodes = [node for node in self.exported.graph.nodes if node.op == "placeholder"]
        specs = list(zip(nodes, signature.input_specs, strict=True))
        changed = set(signature.buffers_to_mutate.values()) | set(
            getattr(signature, "parameters_to_mutate", {}).values()
        )
        own = [(node, node.name) for node, spec in specs if spec.kind.name == "USER_INPUT"]
        for node, spec in specs:
            if spec.target in changed or (trained and spec.kind.name == "PARAMETER"):
                own.append((node, spec.target))
                self.state[spec.target] = self._tensor(spec)
        called = {each.sources[0]: each.name for each in held.symbols if each.sources}
        self._name([node.meta["val"] for node, _ in own], [name for _, name in own], places, called)
        for node, name in own:
            self.values[node] = self.by_name[node.name] = self._input(node.meta["val"], name)
        for node, spec in specs:
            if node not in self.values:
                self.values[node] = self._constant(spec)

    def _name(
        self,
        vals: Sequence[Any],
        names: Sequence[str],
        places: Places,
        called: Mapping[str, str] = {},
    ) -> None:
        """Name torch's symbols: as the author names them, else after the first axis that has this size; ``called``:
        what axes (``x.1``) are called where the author says nothing."""
        roots = {name: symbol(name) for axis in places.values() if (name := axis.name)}
        for place, (val, name) in enumerate(zip(vals, names, strict=True)):
            for axis, size in enumerate(getattr(val, "shape", ())):
                expr = None if isinstance(size, int) else size.node.expr
                if expr is None or not expr.is_Symbol or expr in self.scope.program.sizes:
                    continue
                own = called.get(f"{name}.{axis}", f"{name}.{axis}")
                said = places.get((place, axis), Axis()).size
                self.scope.program.sizes[expr] = symbol(own) if said is None else self._computed(said, own, roots)

    def _computed(self, size: Dim, own: str, roots: dict[str, Dim]) -> Dim:
        """A size in terms of sizes that are axes: where its symbol is none yet, it follows from this axis, ``own``."""
        (root,) = size.symbols()
        if root in roots:
            return size.substitute(roots)
        form = linear(size)
        if form is None:
            raise InvalidInput(f"no axis has the size {root}", hint=f"name one so, or write {size} as a*{root} + b")
        roots[root] = self._solved(symbol(own), *form)
        return symbol(own)

    def _solved(self, size: Dim, factor: int, offset: int) -> Dim:
        """What s is where ``factor * s + offset`` is the size of an axis, which then is asked to be such a size."""
        if factor != 1:
            rest = Relation("==", mod(size, factor), const(offset % factor))
            self.asked.append(
                (rest, f"a size divided by {factor} leaves {{0}}, the program takes those that leave {{1}}")
            )
        if offset > 0:
            self.asked.append((Relation("<=", const(offset), size), "a size is {1}, the program takes {0} or more"))
        return floordiv(size - offset, factor)

    def _input(self, val: Any, name: str) -> Any:
        import torch

        builder = self.scope.builder
        if isinstance(val, torch.Tensor):
            sizes = [self._axis(size, f"{name}.{axis}") for axis, size in enumerate(val.shape)]
            named = [label_of(size) for size in sizes]
            shape = [None if label else size for label, size in zip(named, sizes, strict=True)]
            value = builder.arg(name, dtype_of(val.dtype), shape, named)
            self.given.append(value)
            return value
        if isinstance(val, torch.SymInt):
            value = builder.arg(name, "i64", ())
            self.given.append(value)
            vector = self.scope.one("reshape", (value,), shape=(const(1),))
            (size,) = self.scope.sizes(vector, name, signed=self._may_be_negative(val))
            self.scope.program.sizes.setdefault(val.node.expr, size)
            return size
        if val is None or isinstance(val, bool | int | float | str):
            return val
        raise Unsupported(f"the input {name} is a {type(val).__name__}", hint="pass tensors and numbers")

    def _may_be_negative(self, number: Any) -> bool:
        """Whether an argument that is a ``SymInt`` may be: torch makes up a bound of 0, and does not enforce it."""
        return True

    def _axis(self, size: Any, label: str) -> Dim:
        """The size of an input's axis. Where only an expression of a symbol is a size, the symbol follows from it."""
        if isinstance(size, int):
            return const(size)
        expr, known = size.node.expr, self.scope.program.sizes
        found = dim_of(expr, known)
        if found is not None:
            return found
        out = symbol(label)
        missing = [each for each in expr.free_symbols if each not in known]
        if len(missing) == 1 and expr.is_polynomial(missing[0]) and expr.as_poly(missing[0]).degree() == 1:
            factor, offset = expr.coeff(missing[0], 1), expr.coeff(missing[0], 0)
            if factor.is_Integer and offset.is_Integer and factor > 0:
                known[missing[0]] = self._solved(out, int(factor), int(offset))
                return out
        raise Unsupported(f"the size {expr} of {label} has no form of ours", hint="give the axis a Dim of its own")

    def _tensor(self, spec: Any) -> Any:
        """What a parameter, buffer or constant is."""
        held = spec.kind.name in ("PARAMETER", "BUFFER") and spec.target in self.exported.state_dict
        return (self.exported.state_dict if held else self.exported.constants).get(spec.target)

    def _constant(self, spec: Any) -> Value | None:
        if spec.kind.name == "TOKEN":
            return None
        tensor = self._tensor(spec)
        if not hasattr(tensor, "dtype"):
            raise Unsupported(f"{spec.target} is a {type(tensor).__name__}, no tensor", hint="export without it")
        if id(tensor) not in self._held:
            self.scope.location = Location(name=spec.target)
            self._held[id(tensor)] = self.scope.constant(array_of(tensor))
        return self._held[id(tensor)]

    # -- nodes -------------------------------------------------------------------------------------------------

    def nodes(self) -> None:
        """All nodes in order."""
        for node in self.exported.graph.nodes:
            if node.op == "call_function":
                self.values[node] = self._node(node)
            elif node.op == "get_attr":
                self.values[node] = self._held_by_module(node)

    def _held_by_module(self, node: Any) -> Any:
        """A body, or a tensor that the program itself has."""
        import torch

        found = _attribute(self.exported.graph_module, node.target)
        if not isinstance(found, torch.Tensor):
            return found
        self.scope.location = Location(name=node.name)
        return self.scope.constant(array_of(found))

    def _node(self, node: Any) -> Any:
        if node.target is operator.getitem and not isinstance(self.values.get(node.args[0]), Value):
            return self.values[node.args[0]][node.args[1]]
        args = [self._argument(each) for each in node.args]
        options = {key: self._argument(each) for key, each in node.kwargs.items() if key not in _MEMORY}
        return self.call(node, args, options)

    def call(self, node: Any, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
        """What an op gives for arguments that were read."""
        scope = self.scope
        scope.location = location_of(node)
        scope.call = _call(node)
        try:
            found = self._found(node, args, options)
        except EgshapeError as error:
            raise type(error)(
                f"{node.target}: {error.message}",
                where=error.where or str(scope.location),
                hint=error.hint,
                code=error.code,
            ) from None
        return self._bound(node, found)

    def inside(self, module: Any, scope: Scope) -> Body:
        """A reader of a graph inside of this one, into a scope."""
        return Body(module, scope)

    def _found(self, node: Any, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
        if str(node.target) in HIGHER:
            return HIGHER[str(node.target)](self, node, *args, **options)
        symbolic = SYMBOLIC.get(node.target) or SYMBOLIC.get(scope_name(node.target))
        if symbolic is not None:
            try:
                return symbolic(self.scope, *args, **options)
            except NoLowering as reason:
                raise Unsupported(f"{reason} is not read", where=str(self.scope.location)) from None
        handler = HANDLERS.get(scope_name(node.target))
        if handler is not None:
            try:
                if self.scope.program.whole and scope_name(node.target) in COMPOSITES:
                    return composites.add(self.scope, node, args, options, handler)
                return handler(self.scope, *args, **options)
            except NoLowering:
                self.scope.needs.clear()
        return host.call(self.scope, node, args, options)

    def _argument(self, arg: Any) -> Any:
        import torch

        if isinstance(arg, torch.fx.Node):
            return self.values[arg]
        if isinstance(arg, list | tuple):
            return [self._argument(each) for each in arg]
        return dtype_of(arg) if isinstance(arg, torch.dtype) else arg

    def _bound(self, node: Any, found: Any) -> Any:
        """What a node gave, under its name; checked against the type that torch states."""
        import torch

        vals = node.meta.get("val")
        pairs = [(found, vals)] if not isinstance(vals, list | tuple) else list(zip(found, vals, strict=False))
        for value, val in pairs:
            if not isinstance(value, Value) or not isinstance(val, torch.Tensor):
                continue
            _same_type(node, value, val)
            for size, stated in zip(value.type.dims, val.shape, strict=True):
                if not isinstance(stated, int) and stated.node.expr.is_Symbol:
                    self.scope.program.sizes.setdefault(stated.node.expr, size)
            if value.name.isdigit():
                value.name = self.scope.builder.names.fresh(node.name)
        if isinstance(found, Dim) and isinstance(vals, torch.SymInt) and vals.node.expr.is_Symbol:
            self.scope.program.sizes.setdefault(vals.node.expr, found)
        return found

    # -- outputs -----------------------------------------------------------------------------------------------

    def outputs(self) -> tuple[list[Value], list[str]]:
        """The user's outputs, then new values of what is changed in place, and their names."""
        (node,) = (each for each in self.exported.graph.nodes if each.op == "output")
        self.scope.location = Location()
        own: list[tuple[Any, str]] = []
        changed: list[tuple[Any, str]] = []
        for arg, spec in zip(node.args[0], self.exported.graph_signature.output_specs, strict=True):
            if spec.kind.name == "TOKEN":
                continue
            (own if spec.kind.name == "USER_OUTPUT" else changed).append((self._argument(arg), spec.target))
        names = _output_names(self.exported, len(own))
        pairs = [(value, name) for (value, _), name in zip(own, names, strict=True) if value is not None]
        pairs += [(value, f"{target}{NEW}") for value, target in changed]
        return [self._result(value) for value, _ in pairs], [name for _, name in pairs]

    def _result(self, value: Any) -> Value:
        if isinstance(value, Value):
            return value
        return self.scope.scalar(
            value, "i1" if isinstance(value, bool) else "f64" if isinstance(value, float) else "i64"
        )


class Nodes:
    """A module of torch as a program whose nodes are read."""

    def __init__(self, module: Any) -> None:
        self.graph, self.graph_module = module.graph, module


class Body(Reader):
    """The graph of a body: what it reads is given."""

    def __init__(self, module: Any, scope: Scope) -> None:
        super().__init__(Nodes(module), scope)

    def results_of(self, operands: Sequence[Any]) -> list[Any]:
        """What the body gives for operands."""
        nodes = [node for node in self.exported.graph.nodes if node.op == "placeholder"]
        self.values.update(zip(nodes, operands, strict=True))
        self.nodes()
        (node,) = (each for each in self.exported.graph.nodes if each.op == "output")
        found = self._argument(node.args[0])
        return found if isinstance(found, list) else [found]


def scope_name(target: Any) -> str:
    """The name under which a node's op is declared."""
    return getattr(target, "__name__", "") if isinstance(target, FunctionType) else str(target).removeprefix("aten.")


def _attribute(module: Any, name: str) -> Any:
    for part in name.split("."):
        module = getattr(module, part)
    return module


def location_of(node: Any) -> Location:
    """The model's line: the innermost frame that is none of torch's own, nor of what calls it here."""
    import torch

    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    outside = [each for each in frames if each[0] != FILE and not each[0].startswith(_CALLERS)]
    homes = (str(Path(torch.__file__).parent), "torch/")
    own = [each for each in outside if not each[0].startswith(homes)] or outside
    return Location(own[-1][0], int(own[-1][1]), name=node.name) if own else Location(name=node.name)


def _call(node: Any) -> Call:
    import torch

    vals = node.meta.get("val")
    several = list(vals) if isinstance(vals, list | tuple) else [vals]
    tensors = [each for each in several if isinstance(each, torch.Tensor)]
    dtypes, ranks = tuple(dtype_of(each.dtype) for each in tensors), tuple(each.dim() for each in tensors)
    symbols = tuple(each.node.expr for each in several if isinstance(each, torch.SymInt))
    return Call(scope_name(node.target), node.name, dtypes, _promoted(node), symbols, ranks, _used(node))


def _used(node: Any) -> frozenset[int]:
    items = [each for each in node.users if each.target is operator.getitem]
    return frozenset(each.args[1] for each in items if each.users)


def _promoted(node: Any) -> str:
    import torch

    metas = [each.meta.get("val") if isinstance(each, torch.fx.Node) else each for each in node.args[:2]]
    plain = [_example(each) for each in metas]
    if not plain or any(not isinstance(each, torch.Tensor | bool | int | float) for each in plain):
        return ""
    if not any(isinstance(each, torch.Tensor) for each in plain):
        return ""
    return dtype_of(torch.result_type(*plain) if len(plain) == 2 else plain[0].dtype)


def _example(val: Any) -> Any:
    """A number for a symbolic one: dtypes hang on its kind only."""
    import torch

    kinds = {torch.SymInt: 1, torch.SymFloat: 1.0, torch.SymBool: True}
    return kinds.get(type(val), val)


def _same_type(node: Any, value: Value, val: Any) -> None:
    """Raises InternalError where a lowering gave another dtype, rank or size than torch states."""
    fits = value.type.dtype == dtype_of(val.dtype) and value.type.rank == len(val.shape)
    if fits:
        pairs = zip(value.type.dims, val.shape, strict=True)
        fits = all(size.const is None or not isinstance(other, int) or size.const == other for size, other in pairs)
    if not fits:
        raise InternalError(
            f"{node.target} became {value.type}, but torch says {dtype_of(val.dtype)}{list(val.shape)}",
            where=str(location_of(node)),
            hint="please report it",
        )


def _output_names(exported: Any, count: int) -> list[str]:
    """Outputs that are items of a dict or of a model's output class bear its keys, others numbers."""
    from torch.utils import _pytree as pytree

    spec = exported.call_spec.out_spec
    if spec is None or spec.num_leaves != count:
        return [f"out{place}" for place in range(count)]
    paths, _ = pytree.tree_flatten_with_path(pytree.tree_unflatten(list(range(count)), spec))
    names = []
    for place, (path, _) in enumerate(paths):
        parts = [str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", key)))) for key in path]
        names.append("_".join(parts) if parts and not parts[0].isdigit() else f"out{place}")
    return names


# -- facts and checks ----------------------------------------------------------------------------------------------


def _entry_checks(exported: Any, decomposed: Any, reader: Reader, places: Places) -> list[str]:
    """What the program asks of its inputs: bounds that its author gave, and torch's guards. Notes for guards that are
    not understood."""
    scope = reader.scope
    scope.location = Location(name="guards")
    for expr, held in decomposed.range_constraints.items():
        size = dim_of(expr, scope.program.sizes)
        low, high = whole_bound(held.lower), whole_bound(held.upper)
        if low is not None and low >= 0:
            scope.program.free.add(expr)
        if size is not None:
            meant = low is not None and low > (MADE_UP if expr.is_Symbol else 0)
            _check_range(scope, size, low if meant else None, high)
    inputs = list(reader.by_name.values())
    for (place, axis), said in places.items():
        _check_range(scope, inputs[place].type.dims[axis], said.low, said.high)
    for relation, message in reader.asked:
        scope.check(relation, message)
    return guards.add(scope, guards.of(exported), reader.by_name)


def _check_range(scope: Scope, size: Dim, low: int | None, high: int | None) -> None:
    if low is not None:
        scope.check(Relation("<=", const(low), size), f"a size is {{1}}, the program takes {low} or more")
    if high is not None and high < _LARGE:
        scope.check(Relation("<=", size, const(high)), f"a size is {{0}}, the program takes {high} at most")


def whole_bound(number: Any) -> int | None:
    """An end of a range of torch as a number; None where it has none."""
    return int(number) if getattr(number, "is_Integer", False) or isinstance(number, int) else None


def facts_of(inputs: Sequence[Value], program: Program) -> Facts:
    """Which axis each symbol is, and the bounds of data-dependent sizes."""
    axes = [(value, axis, size) for value in inputs for axis, size in enumerate(value.type.dims)]
    named = [(label_of(size), value, axis) for value, axis, size in axes]
    facts = Facts().with_symbols(SymbolFacts(name, (f"{value.name}.{axis}",)) for name, value, axis in named if name)
    certain = [Relation(each.kind, each.lhs, each.rhs, each.source, certain=True) for each in program.relations]
    return facts.with_relations(certain)
