"""What a person says of the types of values: ``x: f32[n, 4*m]``.

A size is an expression over names, ``?`` says nothing of an axis, ``?[n]`` nothing of the dtype, ``f32[*]`` nothing of
the rank. A name means the same in all annotations of a graph. It is bound, in program order, where it can first be
solved for: as an axis of its own, or alone in a sum with numbers and known names (``4*m``, ``n + m`` once n is known).
Everything else is a ``check``, which stands where what it reads is made, and says the annotation it comes from.

Dtypes and ranks are known when a graph is annotated, so variables for them (``d[n]``, ``f32[*s, k]``) are replaced
before any size is bound (``egshape.annotation``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import gcd
from types import MappingProxyType

from egshape.annotation import Annotation, annotation, without_variables
from egshape.dims import (
    Definedness,
    Dim,
    Symbol,
    const,
    floordiv,
    is_nonnegative,
    maximum,
    minimum,
    parse,
    parse_with_conditions,
    symbol,
)
from egshape.errors import CheckFailed, Contradiction, InvalidInput, TypeMismatch
from egshape.facts import Facts, Relation
from egshape.ir.builder import decide_constant
from egshape.ir.graph import Graph, Op, Value
from egshape.ops.checks import format_message
from egshape.places import Place, innermost, place_of, with_ops
from egshape.sizes import axes_of, values_of
from egshape.spelling import near

NAMES = "names"
"""Key of the metadata: what the names of annotations mean, in the graph's own symbols."""
SHOWN = "shown"
"""Key of the metadata: how a person calls symbols of the graph."""


@dataclass(frozen=True)
class _Axis:
    """An axis of which something is said: who speaks, of which size, as what."""

    where: str
    value: Value
    size: Dim
    wanted: Dim
    text: str

    @property
    def conditions(self) -> tuple[Definedness, ...]:
        """What the text needs in order to have a value."""
        return parse_with_conditions(self.text)[1]

    @property
    def names(self) -> frozenset[str]:
        """The names in the text, but those that go out for nothing."""
        return self.wanted.symbols().union(*(each.one.symbols() | each.two.symbols() for each in self.conditions))


@dataclass(frozen=True)
class _Bound:
    """What a name means: a size, where that was said, and the values that it is of."""

    size: Dim
    where: str = ""
    values: tuple[Value, ...] = ()


def annotate(
    graph: Graph, types: Mapping[str, str | Annotation], called: Mapping[str, str] = MappingProxyType({})
) -> Graph:
    """The graph with checks that its values have the types that are said of them: of inputs and outputs by name, of
    values inside as ``%name``. Names that an earlier annotation of the graph bound are known. ``called``: how messages
    call an input, where that is not its name.

    Raises ParseError for a text that is no type; InvalidInput for a value that the graph does not have, a name that
    nothing solves, and a place where no check can stand; TypeMismatch for another dtype or rank; CheckFailed where
    numbers alone show that it is not so.

    Examples:
        >>> import egshape
        >>> from egshape.frontends.builder import Network
        >>> net = Network()
        >>> x = net.input("x", ["n", 4])
        >>> graph = net.graph(y=net.relu(net.transpose(net.transpose(x, [1, 0]), [1, 0])))
        >>> held = egshape.annotate(graph, {"x": "f32[8*m, 4]"})
        >>> egshape.optimize(held).explain_fact("n % 4 == 0").status
        'proved'
    """
    order = {value: place for place, value in enumerate(values_of(graph).values())}
    said = [
        (*_found(graph, name, called), annotation(each) if isinstance(each, str) else each)
        for name, each in types.items()
    ]
    said.sort(key=lambda each: (each[1].startswith("result"), order[each[0]]))
    types_found = [(value.type.dtype, None if value.type.shape is None else value.type.rank) for value, _, _ in said]
    plain = without_variables([(who, each) for _, who, each in said], types_found)
    binding = _Binding(graph, called)
    binding.say([axis for (value, who, _), each in zip(said, plain, strict=True) for axis in _axes(value, who, each)])
    metadata = {
        **graph.metadata,
        NAMES: tuple((name, str(each.size)) for name, each in binding.names.items() if each.size is not symbol(name)),
        SHOWN: tuple((name, str(size)) for name, size in binding.shown.items()),
    }
    return replace(graph, body=with_ops(graph.body, binding.checks), metadata=metadata, optimized=False)


def sizes_said(types: Mapping[str, Annotation]) -> Facts:
    """What types say of sizes before there is a graph: of axes by the names that they have where a model gives them no
    other. ``annotate`` checks it; nothing where it cannot all be."""
    said = (
        Relation("==", symbol(f"{name.removeprefix('%')}.{axis}"), size.dim)
        for name, each in types.items()
        for axis, size in enumerate(each.shape or ())
        if size is not None
    )
    try:
        return Facts().with_relations(said)
    except Contradiction:
        return Facts()


def shown(graph: Graph) -> dict[str, Dim]:
    """How a person calls symbols of a graph, by the symbol's name."""
    return {name: parse(text) for name, text in graph.metadata.get(SHOWN, ())}


def _found(graph: Graph, name: str, called: Mapping[str, str]) -> tuple[Value, str]:
    """The value of a name, and how messages call it."""
    inputs = {value.name: value for value in graph.inputs}
    outputs = dict(zip(graph.output_names, graph.outputs, strict=True))
    inside = {f"%{each}": value for each, value in values_of(graph).items() if each not in inputs}
    for kind, values in (("argument", inputs), ("result", outputs), ("value", inside)):
        if name in values:
            return values[name], f"{kind} {called.get(name, name)}"
    known = [*inputs, *outputs, *inside]
    raise InvalidInput(f"the graph has no value {name!r}", hint=f"it has {', '.join(near(name, known, 5))}")


def _axes(value: Value, who: str, said: Annotation) -> list[_Axis]:
    """The axes of which something is said. Raises TypeMismatch for another dtype or rank."""
    if said.dtype not in (None, value.type.dtype):
        raise TypeMismatch(f"is {value.type.dtype}, where {said.text} is said of it", where=who)
    if said.shape is None:
        return []
    if value.type.shape is None:
        raise TypeMismatch(f"has no known rank, where {said.text} is said of it", where=who)
    if len(said.shape) != value.type.rank:
        raise TypeMismatch(f"is {value.type}, of rank {value.type.rank}, where {said.text} is said of it", where=who)
    return [
        _Axis(f"{who}, axis {axis}", value, size, wanted.dim, wanted.text)
        for axis, (size, wanted) in enumerate(zip(value.type.dims, said.shape, strict=True))
        if wanted is not None
    ]


@dataclass
class _Binding:
    """What the names mean, and the checks, while the axes are gone through."""

    graph: Graph
    called: Mapping[str, str]
    names: dict[str, _Bound] = field(default_factory=dict)
    shown: dict[str, Dim] = field(default_factory=dict)
    checks: dict[Place, list[Op]] = field(default_factory=dict)
    axes: dict[str, Dim] = field(default_factory=dict)

    def __post_init__(self) -> None:
        defined = {each.name: each for each in self.graph.body.symbols}
        for name, each in defined.items():
            where = "" if each.axis is None else f"{self._who(each.value)}, axis {each.axis}"
            self.names[name] = _Bound(symbol(name), where, (each.value,))
        for name, text in self.graph.metadata.get(NAMES, ()):
            size = parse(text)
            values = tuple(defined[each].value for each in sorted(size.symbols()) if each in defined)
            self.names[name] = _Bound(size, "", values)
        self.shown = shown(self.graph)
        self.axes = axes_of(self.graph)

    def _who(self, value: Value) -> str:
        inside = value not in self.graph.inputs
        return f"value %{value.name}" if inside else f"argument {self.called.get(value.name, value.name)}"

    def say(self, axes: Sequence[_Axis]) -> None:
        """Take what is said of axes, in order; one with a name that nothing solves yet waits until something does."""
        self._refuse_circles(axes)
        waiting = list(axes)
        while waiting:
            left = [axis for axis in waiting if not self._take(axis)]
            if len(left) == len(waiting):
                self._stuck(left[0])
            waiting = left

    def _refuse_circles(self, axes: Sequence[_Axis]) -> None:
        """Raises InvalidInput where an axis is said to be a sum or product of its own name: ``8*h`` of the axis that
        the model calls h, where another name is meant."""
        said: dict[str, _Axis] = {}
        for axis in axes:
            name = str(axis.size)
            if axis.value in self.graph.inputs and axis.size is symbol(name) and axis.wanted is not axis.size:
                said.setdefault(name, axis)
        for start, axis in said.items():
            if not _is_sum(axis.wanted) or (len(axis.wanted.terms) == 1 and axis.wanted is symbol(str(axis.wanted))):
                continue
            reached, waiting = set[str](), [axis]
            while waiting:
                for name in waiting.pop().wanted.symbols() - reached:
                    reached.add(name)
                    waiting += [said[name]] if name in said and _is_sum(said[name].wanted) else []
            if start in reached:
                self._clash(axis, start)

    def _clash(self, axis: _Axis, own: str) -> None:
        taken = {*self.names, *axis.names}
        free = next(name for name in (*"pqrstuvk", *(f"p{k}" for k in range(len(taken) + 1))) if name not in taken)
        meant = own if own in axis.wanted.symbols() else min(axis.wanted.symbols() & self.names.keys())
        other = axis.wanted.substitute({meant: symbol(free)})
        raise InvalidInput(
            f"{axis.text} is said of the axis that is the model's own {own}",
            where=axis.where,
            hint=f"names that the model has mean its sizes; write {other}",
        )

    def _stuck(self, axis: _Axis) -> None:
        names = sorted(axis.names - self.names.keys() - self.axes.keys())
        raise InvalidInput(
            f"nothing tells what {' and '.join(names)} is in {axis.text}",
            where=axis.where,
            hint=f"say {names[0]} of an axis of its own; alone in a sum with numbers and known names it is solved for",
        )

    def _take(self, axis: _Axis) -> bool:
        """Bind the name that is new here, or check the size; False where it cannot be said yet."""
        new = sorted(axis.names - self.names.keys() - self.axes.keys())
        meaning = {**self.axes, **{name: each.size for name, each in self.names.items()}}
        if not new:
            self._define(axis, meaning)
            self._expect(axis, axis.wanted.substitute(meaning))
            return True
        factor = _factor(axis.wanted, new[0]) if len(new) == 1 else 0
        if not factor:
            return False
        self._define(axis, meaning)
        rest = (axis.wanted - factor * symbol(new[0])).substitute(meaning)
        total = axis.size - rest if factor > 0 else rest - axis.size
        factor = abs(factor)
        unsolved = f"{axis.text} = {{0}} has no solution"
        if gcd(factor, *(c for _, c in total.terms)) != factor:
            self._check(axis, Relation("==", total % factor, const(0)), unsolved)
        if not is_nonnegative(total):
            self._check(axis, Relation("<=", const(0), total), unsolved)
        self.names[new[0]] = _Bound(floordiv(total, const(factor)), axis.where, self._values(axis))
        self._call(axis)
        return True

    def _call(self, axis: _Axis) -> None:
        """A person calls the symbol of an axis as was said of it first."""
        name = str(axis.size)
        if axis.size is symbol(name) and name in self.axes and axis.wanted is not axis.size:
            self.shown.setdefault(name, axis.wanted)

    def _define(self, axis: _Axis, meaning: Mapping[str, Dim]) -> None:
        """Check that what is said has a value: no divisor is 0, and what is broadcast fits."""
        for each in axis.conditions:
            one, two = each.one.substitute(meaning), each.two.substitute(meaning)
            nearest = minimum(_apart(one, two), minimum(_apart(one, const(1)), _apart(two, const(1))))
            fits = Relation("==", nearest, const(0))  # a product of the three would not fit 64 bits
            relation = fits if each.kind == "bcast" else Relation("!=", one, const(0))
            self._tell(axis, relation, f"{axis.text} is not defined", each.one.symbols() | each.two.symbols())

    def _expect(self, axis: _Axis, size: Dim) -> None:
        self._tell(axis, Relation("==", axis.size, size), f"the size is {{0}}, not {axis.text}", axis.wanted.symbols())

    def _tell(self, axis: _Axis, relation: Relation, message: str, names: frozenset[str]) -> None:
        """A check whose message says what names are, and by what."""
        spoken = [name for name in sorted(names) if name in self.names and self.names[name].where]
        said = [f"{name} is {{{at}}} by {self.names[name].where}" for at, name in enumerate(spoken, start=1)]
        message += f", where {', '.join(said)}" if said else ""
        self._check(axis, relation, message, [self.names[name].size for name in spoken])

    def _check(self, axis: _Axis, relation: Relation, message: str, args: Sequence[Dim] = ()) -> None:
        """A check where all that it reads is made. Raises CheckFailed for what can never hold."""
        message, args = f"{axis.where}: {message}", (axis.size, *args)
        holds = decide_constant(relation)
        if holds is False:
            raise CheckFailed(format_message(message, args))
        if holds:
            return
        attrs = {"relation": relation.kind, "sides": (relation.lhs, relation.rhs), "message": message, "args": args}
        block, at = innermost(self.graph, [place_of(self.graph, value) for value in self._values(axis)], axis.where)
        while at + 1 < len(block.ops) and block.ops[at + 1].name == "check":
            at += 1  # behind what was said before
        self.checks.setdefault((block, at), []).append(Op("check", (), {**attrs, "fact": ""}, ()))

    def _values(self, axis: _Axis) -> tuple[Value, ...]:
        """The values that a check of an axis reads sizes of."""
        known = (value for name in axis.names if name in self.names for value in self.names[name].values)
        return tuple(dict.fromkeys((axis.value, *known)))


def _apart(one: Dim, two: Dim) -> Dim:
    return maximum(one, two) - minimum(one, two)


def _factor(wanted: Dim, name: str) -> int:
    """The number by which a name stands alone in a sum; 0 where it stands in any other way too."""
    factor = dict(wanted.terms).get(symbol(name).terms[0][0], 0)
    return 0 if name in (wanted - factor * symbol(name)).symbols() else factor


def _is_sum(size: Dim) -> bool:
    """Whether a size is made of names by sums and products alone."""
    return all(isinstance(atom, Symbol) for mono, _ in size.terms for atom, _ in mono)
