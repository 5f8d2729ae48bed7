"""Facts about sizes inside of a graph: `%12.0 % 4 == 0`.

One about sizes that the inputs give is a fact like any other. One about a size that data gives, or of a value inside a
region, holds from the place where the value is made: there it is checked, and what stands behind may rely on it."""

from __future__ import annotations

from dataclasses import replace

from egshape.dims import Dim, symbol
from egshape.errors import InvalidInput
from egshape.facts import Facts, Relation
from egshape.ir.graph import Graph, Op, Value, blocks_of
from egshape.ops.checks import assumed_message
from egshape.places import Place, innermost, place_of, with_ops
from egshape.sizes import axes_of, listed, values_of
from egshape.spelling import near


def settled(graph: Graph, facts: Facts) -> tuple[Graph, Facts]:
    """The graph with checks of the facts that hold inside of it only, and the other facts, in its symbols.

    Raises InvalidInput for an axis that no value has, and for a place where no check can stand."""
    sizes, data = _sizes(graph, facts), _data_symbols(graph)
    places: dict[Place, list[Op]] = {}
    plain: list[Relation] = []
    values = values_of(graph)
    for fact in facts.statements():
        named = [values[name[1:].rpartition(".")[0]] for name in sorted(fact.symbols()) if name in sizes]
        relation = fact.substitute(sizes)
        named += [data[name] for name in sorted(relation.symbols()) if name in data]
        place = (
            innermost(graph, [place_of(graph, value) for value in named], f"the fact {fact.text}")
            if named
            else (graph.body, -1)
        )
        if place[0] is graph.body and not relation.symbols() & data.keys():
            plain.append(relation)
        else:
            places.setdefault(place, []).extend(_checks(relation, fact))
    if not places and not sizes:
        return graph, facts
    left = Facts().with_relations(plain)
    for each in facts.symbols:
        if each.name not in sizes and (each.likely or each.sources):
            left = left.with_symbol(each.name, each.sources, each.likely)
    return replace(graph, body=with_ops(graph.body, places)), replace(left, assumed=facts.assumed)


def _sizes(graph: Graph, facts: Facts) -> dict[str, Dim]:
    """The sizes that names such as `%12.0` mean in a graph."""
    values, known = values_of(graph), {each.name for block in blocks_of(graph.body) for each in block.symbols}
    out: dict[str, Dim] = {}
    for name in sorted({name for fact in facts.statements() for name in fact.symbols()}):
        if not name.startswith("%") or name in known:
            continue
        label, _, axis = name[1:].rpartition(".")
        value = values.get(label)
        if value is None or value in graph.inputs or value.type.shape is None:
            raise InvalidInput(f"a fact speaks of {name!r}, which the model does not have", hint=_hint(graph, label))
        if not axis.isdigit() or int(axis) >= value.type.rank:
            raise InvalidInput(
                f"a fact speaks of {name!r}, but %{label} has {value.type.rank} axes",
                hint="the number behind the last dot is an axis, counted from 0",
            )
        out[name] = value.type.dims[int(axis)]
    return out


def _hint(graph: Graph, label: str) -> str:
    inputs = {value.name for value in graph.inputs}
    names = [name for name in values_of(graph) if name not in inputs]
    like = near(label, names, 5)
    shown = ", ".join(f"%{name}" for name in like)
    own = {each.name for each in graph.body.symbols}
    return f"values inside are {shown}{', ...' if len(names) > len(like) else ''}; {listed(own, axes_of(graph), 10)}"


def _data_symbols(graph: Graph) -> dict[str, Value]:
    """The symbols that no input's axis gives, and the values that do."""
    return {
        each.name: each.value
        for block in blocks_of(graph.body)
        for each in block.symbols
        if each.value not in graph.inputs
    }


def _checks(relation: Relation, fact: Relation) -> list[Op]:
    names = sorted(relation.symbols())
    values = ", ".join(f"{name} is {{{place}}}" for place, name in enumerate(names))
    message = assumed_message(fact.text) + (f": {values}" if names else "")
    return [
        Op(
            "check",
            (),
            {
                "relation": part.kind,
                "sides": (part.lhs, part.rhs),
                "message": message,
                "args": tuple(map(symbol, names)),
                "fact": fact.text,
            },
            (),
        )
        for part in relation.parts()
    ]
