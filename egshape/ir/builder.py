"""Builds blocks: infers types forward, tracks what is known of the elements of shape tensors, and names the symbols.

Types go forward here and only forward; whatever an inferred type relies on is recorded on the op (``Op.requires``) to
be proved or checked later, in program order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np

from egshape.dims import Dim, const, is_nonnegative, symbol
from egshape.dims.core import monomial_weight
from egshape.errors import Contradiction, EgshapeError
from egshape.facts import Facts, Relation
from egshape.ir.graph import NOWHERE, Block, Location, Op, SymbolDef, Value
from egshape.ir.types import TensorType, exact_integers, integer_range, is_float, is_integer
from egshape.ir.usual import may_leave
from egshape.ops import REGISTRY
from egshape.ops.base import ELEMENT_LIMIT, FLOATS, Element, Loose, OpDecl, Registry, object_array, typed
from egshape.ops.shape_function import ShapeFunction, assuming
from egshape.ops.symbolic import Undecided

LONGEST = 128
"""Sizes of more factors, with one for each term, are not followed: they are data."""

OFFSET = 2**31
"""What is added to a possibly negative element so that its symbol is a size."""

Decide = Callable[[Relation], "bool | None"]


def decide_constant(relation: Relation) -> bool | None:
    """Decide a relation whose difference is a constant; anything else is unknown here."""
    difference = (relation.lhs - relation.rhs).const
    if difference is None:
        return None
    return {"==": difference == 0, "!=": difference != 0, "<=": difference <= 0, "<": difference < 0}[relation.kind]


def fits(dim: Dim, dtype: str, source: str) -> list[Relation]:
    """The relations that say that a size expression lies in the range of an integer dtype, or of the integers that a
    float dtype holds; none where that is plain: constants in range, and a single symbol (it is the size of an axis,
    which fits as an entry fact)."""
    high = exact_integers(dtype) if is_float(dtype) else integer_range(dtype)[1]
    low = -high if is_float(dtype) else integer_range(dtype)[0]
    number = dim.const
    if number is not None and low <= number <= high:
        return []
    out = []
    if not _is_symbol(dim):
        out.append(Relation("<=", dim, const(high), source))
        if not is_nonnegative(dim):
            out.append(Relation("<=", const(low), dim, source))
    elif high < 2**31 - 1:
        out.append(Relation("<=", dim, const(high), source))
    return out


def _is_symbol(dim: Dim) -> bool:
    names = dim.symbols()
    return len(names) == 1 and dim is symbol(next(iter(names)))


class _Scope:
    """The ElementScope of one op under construction."""

    def __init__(self, decide: Decide, source: str) -> None:
        self._decide = decide
        self.source = source
        self.requires: dict[Relation, Relation] = {}

    def decide(self, relation: Relation) -> bool | None:
        return self._decide(relation)

    def require_fit(self, dim: Dim, dtype: str) -> None:
        for relation in fits(dim, dtype, self.source):
            self.require(relation)

    def require(self, relation: Relation) -> None:
        self.requires[relation] = relation


class Names:
    """Fresh value names of a graph: the given one if it is free, else a number."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._kept: set[str] = set()
        self._next = count()

    def keep(self, names: Iterable[str]) -> None:
        """Keep names for values that ask for them: no number is given that is one of these."""
        self._kept.update(names)

    def fresh(self, wanted: str | None = None) -> str:
        """A name that no other value of the graph has."""
        if wanted and wanted not in self._used:
            self._used.add(wanted)
            return wanted
        for number in self._next:
            name = str(number)
            if name not in self._used and name not in self._kept:
                break
        self._used.add(name)
        return name


class BlockBuilder:
    """Builds one block. ``child()`` builds a region inside it, which sees the values of its parents."""

    def __init__(
        self, *, parent: BlockBuilder | None = None, registry: Registry = REGISTRY, decide: Decide = decide_constant
    ) -> None:
        self.parent = parent
        self.registry = registry
        self._decide = decide
        self.names: Names = parent.names if parent else Names()
        self._elements: dict[Value, np.ndarray] = {}
        self._symbol_names: set[str] = parent._symbol_names if parent else set()
        self.args: list[Value] = []
        self.ops: list[Op] = []
        self.symbols: list[SymbolDef] = []
        self._producers: dict[Value, Op] = {}
        self._named_elements: dict[tuple[Value, int, int], str] = {}
        """The symbols of elements, by where these were computed and what is added to them."""

    def child(self) -> BlockBuilder:
        """A builder for a region of an op of this block."""
        return BlockBuilder(parent=self, registry=self.registry, decide=self._decide)

    def trial(self) -> BlockBuilder:
        """A builder inside this block whose names are its own: what it builds is thrown away."""
        out = self.child()
        out.names = Names()
        out._symbol_names = set(self._symbol_names)
        return out

    # -- arguments -----------------------------------------------------------------------------------------------

    def arg(
        self,
        name: str | None,
        dtype: str,
        shape: Sequence[Dim | int | None] | None,
        axis_names: Sequence[str | None] | None = None,
    ) -> Value:
        """Add an argument. An axis given as None gets a symbol named ``axis_names[axis]`` or ``name.axis``."""
        wanted = self.names.fresh(name)
        if shape is None:
            value = Value(wanted, TensorType(dtype, None))
            self.args.append(value)
            return value
        dims: list[Dim] = []
        pending: list[tuple[str, int]] = []
        for axis, size in enumerate(shape):
            if size is None:
                given = axis_names[axis] if axis_names else None
                label = self._fresh_symbol(given or f"{wanted}.{axis}", shared=given is not None)
                pending.append((label, axis))
                dims.append(symbol(label))
            else:
                dims.append(size if isinstance(size, Dim) else const(size))
        value = Value(wanted, TensorType(dtype, tuple(dims)))
        self.args.append(value)
        for label, axis in pending:
            if not any(known.name == label for known in self.symbols):
                self.symbols.append(SymbolDef(label, value, axis=axis))
        return value

    def _fresh_symbol(self, wanted: str, *, shared: bool = False) -> str:
        name, tries = wanted, 1
        while name in self._symbol_names and not shared:
            name, tries = f"{wanted}_{tries}", tries + 1
        self._symbol_names.add(name)
        return name

    # -- elements ------------------------------------------------------------------------------------------------

    def elements(self, value: Value) -> np.ndarray | None:
        """What is known of the elements of a value, as an object array of ``Element``; None if nothing is."""
        builder: BlockBuilder | None = self
        while builder is not None:
            found = builder._elements.get(value)
            if found is not None:
                return found
            builder = builder.parent
        return None

    def set_elements(self, value: Value, elements: np.ndarray) -> None:
        """Say what the elements of a value are (a frontend knows a ``jax.global_constant`` argument)."""
        self._elements[value] = elements

    # -- ops -----------------------------------------------------------------------------------------------------

    def add(
        self,
        name: str,
        operands: Sequence[Value] = (),
        attrs: Mapping[str, Any] | None = None,
        *,
        regions: Sequence[Block] = (),
        location: Location = NOWHERE,
        result_names: Sequence[str | None] = (),
        declared: Sequence[TensorDeclaration] | None = None,
        requires: Sequence[Relation] = (),
    ) -> tuple[Value, ...]:
        """Add an op and give its results.

        ``declared`` are the result types a model states, ``(dtype, (size or None, ...))`` each: a stated size that
        differs in form from the inferred one is taken, and the equality recorded as required.
        Raises EgshapeError naming the op and its location for wrong arity, rank, dtype or attributes."""
        decl = self.registry[name]
        scope = _Scope(self._decide, f"{name} at {location}" if str(location) else name)
        for relation in requires:
            scope.require(relation)
        labels = [self.names.fresh(wanted) for wanted in result_names]
        try:
            pending: list[SymbolDef] = []
            full = self._attributes(decl, operands, dict(attrs or {}), scope, labels, pending)
            types = self._infer(decl, operands, full, regions, declared)
        except EgshapeError as error:
            raise EgshapeError(
                f"{name}: {error.message}", where=str(location) or error.where, hint=error.hint, code=error.code
            ) from None
        while len(labels) < len(types):
            labels.append(self.names.fresh())
        if declared is not None:
            types = self._reconcile(name, types, declared, scope, location)
        results = tuple(Value(label, self._named(label, found)) for label, found in zip(labels, types, strict=True))
        for value, found in zip(results, types, strict=True):
            self._define_axes(value, found)
        self._define_elements(pending)
        self._track_elements(decl, operands, {**full, "regions": tuple(regions)} if regions else full, results, scope)
        op = Op(name, tuple(operands), full, results, tuple(regions), location, tuple(scope.requires.values()))
        self.ops.append(op)
        for value in results:
            self._producers[value] = op
        return results

    def one(
        self, name: str, operands: Sequence[Value] = (), attrs: Mapping[str, Any] | None = None, **options: Any
    ) -> Value:
        """``add`` for an op with one result."""
        (value,) = self.add(name, operands, attrs, **options)
        return value

    def sizes(
        self, name: str, operand: Value, key: str, signed: bool = False
    ) -> tuple[tuple[Dim, ...], tuple[Relation, ...]]:
        """The elements of an integer vector as the ``sizes`` attribute ``key`` of an op without a dynamic form;
        unknown ones become symbols. ``signed``: they may be negative. Also the relations on which that relies: give
        both to ``add``."""
        scope, pending = _Scope(self._decide, name), list[SymbolDef]()
        found = self._sizes_of(operand, scope, name, key, pending, signed)
        self._define_elements(pending)
        return found, tuple(scope.requires.values())

    def name_elements(self, value: Value, target: Value) -> tuple[Relation, ...]:
        """Give each unknown element of an integer vector a symbol, and carry it on through the ops of this block
        to ``target``: sizes computed from it become expressions in it (the window of a slice at a start that is
        data). The relations on which that relies belong to the op that is added next."""
        scope = _Scope(self._decide, f"elements of %{value.name}")
        if not small(value.type) or not is_integer(value.type.dtype) or value.type.rank > 1:
            return ()
        named: dict[Value, bool] = {}
        for index in range(int(np.prod([dim.const or 0 for dim in value.type.dims], dtype=np.int64))):
            source, place = self._moved_from(value, index)
            shape = tuple(int(dim.const or 0) for dim in source.type.dims)
            known = self.elements(source)
            flat = list(np.full(shape, None, object).reshape(-1) if known is None else known.reshape(-1))
            if flat[place] is None:
                label = self._fresh_symbol(f"%{source.name}.element{place}")
                self.symbols.append(SymbolDef(label, source, element=place))
                flat[place] = symbol(label)
                self._elements[source] = object_array(flat, shape)
                named[source] = True
        if named:
            self._carry(dict(named), value, scope)
            self._carry({**named, value: True}, target, scope)
        return tuple(scope.requires.values())

    def _moved_from(self, value: Value, index: int) -> tuple[Value, int]:
        """Where an element of a vector was computed, back through what moves it and keeps the number."""
        while (op := self._producer(value)) is not None:
            if (op.name == "reshape" and small(op.operands[0].type)) or (op.name == "convert" and _keeps(op)):
                value = op.operands[0]
            elif op.name == "slice" and value.type.rank == 1 and len(op.operands) == 1 and small(op.operands[0].type):
                start, stride = op.attrs["starts"][0].const, op.attrs["strides"][0].const
                if start is None or stride is None:
                    break
                value, index = op.operands[0], start + index * stride
            elif op.name == "concatenate" and value.type.rank == 1:
                for part in op.operands:
                    length = int(part.type.dims[0].const or 0)
                    if index < length:
                        value = part
                        break
                    index -= length
            else:
                break
        return value, index

    def _producer(self, value: Value) -> Op | None:
        """The op of this block or one around it that gives a value."""
        found = self._producers.get(value)
        return found if found is not None or self.parent is None else self.parent._producer(value)

    def _define_elements(self, pending: Sequence[SymbolDef]) -> None:
        """Define symbols of elements: the same element has the same one from here on."""
        self.symbols.extend(pending)
        for each in pending:
            assert each.element is not None
            self._named_elements[(*self._moved_from(each.value, each.element), each.offset)] = each.name

    def _name_of(self, operand: Value, index: int, offset: int, pending: Sequence[SymbolDef]) -> str | None:
        """The symbol of an element that was asked for before."""
        place = self._moved_from(operand, index)
        for each in pending:
            if each.element is not None and (*self._moved_from(each.value, each.element), each.offset) == (
                *place,
                offset,
            ):
                return each.name
        builder: BlockBuilder | None = self
        while builder is not None:
            found = builder._named_elements.get((*place, offset))
            if found is not None:
                return found
            builder = builder.parent
        return None

    def _carry(self, changed: dict[Value, bool], value: Value, scope: _Scope) -> bool:
        """Evaluate the elements of a value anew if they depend on changed ones."""
        if value in changed:
            return changed[value]
        changed[value] = False
        op, known = self._producers.get(value), self.elements(value)
        complete = known is not None and None not in known.reshape(-1).tolist()
        if op is None or complete or not small(value.type):
            return False
        carried = [self._carry(changed, operand, scope) for operand in op.operands]
        if any(carried):
            attrs = {**op.attrs, "regions": op.regions} if op.regions else op.attrs
            self._track_elements(self.registry[op.name], op.operands, attrs, op.results, scope)
            changed[value] = True
        return changed[value]

    def finish(self, results: Sequence[Value]) -> Block:
        """The block, returning ``results``."""
        return Block(tuple(self.args), tuple(self.ops), tuple(results), tuple(self.symbols))

    # -- inside add ----------------------------------------------------------------------------------------------

    def _attributes(
        self,
        decl: OpDecl,
        operands: Sequence[Value],
        given: dict[str, Any],
        scope: _Scope,
        labels: list[str],
        pending: list[SymbolDef],
    ) -> dict[str, Any]:
        """Complete attributes: defaults, and sizes read from trailing operands (``pending`` gets their symbols)."""
        fixed = len(decl.operands)
        extra = operands[fixed:] if not decl.variadic else ()
        if (not decl.variadic and len(operands) < fixed) or (decl.variadic and len(operands) < fixed - 1):
            raise EgshapeError(f"takes {fixed} operands, got {len(operands)}", code="arity")
        if len(extra) > len(decl.dynamic):
            raise EgshapeError(f"takes at most {fixed + len(decl.dynamic)} operands, got {len(operands)}", code="arity")
        for attribute in decl.attrs:
            if attribute.name not in given:
                if attribute.default is ... and attribute.name not in decl.dynamic[: len(extra)]:
                    raise EgshapeError(f"needs the attribute {attribute.name!r}", code="attribute")
                if attribute.default is not ...:
                    given[attribute.name] = attribute.default
        unknown = given.keys() - {attribute.name for attribute in decl.attrs}
        if unknown:
            raise EgshapeError(f"has no attribute {sorted(unknown)[0]!r}", code="attribute")
        if extra and not labels:
            labels.append(self.names.fresh())
        for key, operand in zip(decl.dynamic, extra, strict=False):
            given[key] = self._sizes_of(operand, scope, labels[0], key, pending, decl.traits.signed)
        return {attribute.name: given[attribute.name] for attribute in decl.attrs if attribute.name in given}

    def _sizes_of(
        self,
        operand: Value,
        scope: _Scope,
        label: str,
        key: str,
        pending: list[SymbolDef],
        signed: bool = False,
    ) -> tuple[Dim, ...]:
        """The elements of a shape operand as sizes; unknown ones become symbols named after the result."""
        if operand.type.shape is None or operand.type.rank > 2 or not is_integer(operand.type.dtype):
            raise EgshapeError(f"needs an integer vector as {key}, got {operand.type}", code="shape-operand")
        count_of = 1
        for dim in operand.type.shape:
            if dim.const is None:
                raise EgshapeError(f"the length of {key} is not static: {operand.type}", code="shape-operand")
            count_of *= dim.const
        known = self.elements(operand)
        flat: list[Element] = [None] * count_of if known is None else list(known.reshape(-1))
        sizes: list[Dim] = []
        for index, item in enumerate(flat):
            if isinstance(item, Dim):
                scope.require_fit(item, operand.type.dtype)
                sizes.append(item)
                continue
            offset = OFFSET if signed else 0
            found = self._name_of(operand, index, offset, pending)
            if found is None:
                found = self._fresh_symbol(f"%{label}.{index}" if key == "shape" else f"%{label}.{key}{index}")
                pending.append(SymbolDef(found, operand, element=index, offset=offset))
            sizes.append(symbol(found) - offset)
        return tuple(sizes)

    def _infer(
        self,
        decl: OpDecl,
        operands: Sequence[Value],
        attrs: Mapping[str, Any],
        regions: Sequence[Block],
        declared: Sequence[TensorDeclaration] | None,
    ) -> list[Loose]:
        fixed = operands if decl.variadic else operands[: len(decl.operands)]
        if decl.asserts is not None and decl.contract is None:
            return typed(self._of_shape_function(decl.asserts, [operand.type for operand in fixed], attrs, declared))
        extra = {"regions": tuple(regions)} if decl.regions else {}
        return typed(decl.shape(*(operand.type for operand in fixed), **attrs, **extra))

    def _of_shape_function(
        self,
        function: ShapeFunction,
        types: Sequence[TensorType],
        attrs: Mapping[str, Any],
        declared: Sequence[TensorDeclaration] | None,
    ) -> Loose | list[Loose]:
        """What a user's shape function gives; the checks before this place may say which rank or dtype that is."""
        try:
            return function.infer(types, attrs, declared)
        except Undecided as undecided:
            try:
                with assuming(self._checked()):
                    return function.infer(types, attrs, declared)
            except (Undecided, Contradiction):
                raise undecided from None

    def _checked(self) -> Facts:
        """What the checks before this place say of sizes. Raises Contradiction."""
        checks = [op.attrs for op in self.ops if op.name == "check" and op.attrs["relation"] != "value"]
        own = Facts().with_relations(Relation(each["relation"], *each["sides"]) for each in checks)
        return own if self.parent is None else self.parent._checked().merge(own)

    def _reconcile(
        self, name: str, types: list[Loose], declared: Sequence[TensorDeclaration], scope: _Scope, location: Location
    ) -> list[Loose]:
        if len(types) != len(declared):
            raise EgshapeError(
                f"{name} gives {len(types)} results, the model states {len(declared)}",
                where=str(location),
                code="results",
            )
        out: list[Loose] = []
        for (dtype, shape), (stated_dtype, stated) in zip(types, declared, strict=True):
            if dtype != stated_dtype or (shape is not None and stated is not None and len(shape) != len(stated)):
                raise EgshapeError(
                    f"{name} gives {_show(dtype, shape)}, the model states {_show(stated_dtype, stated)}",
                    where=str(location),
                    code="type-mismatch",
                )
            if stated is None:
                out.append((dtype, shape))
                continue
            if shape is None:
                out.append((dtype, tuple(None if said is None else const(said) for said in stated)))
                continue
            sizes: list[Dim | None] = []
            for inferred, said in zip(shape, stated, strict=True):
                if said is None:
                    sizes.append(inferred)
                    continue
                if inferred is not None and inferred is not const(said):
                    if inferred.const is not None:
                        raise EgshapeError(
                            f"{name} gives {_show(dtype, shape)}, the model states {_show(stated_dtype, stated)}",
                            where=str(location),
                            code="type-mismatch",
                        )
                    scope.require(Relation("==", inferred, const(said), f"type of {name}"))
                sizes.append(const(said))
            out.append((dtype, tuple(sizes)))
        return out

    def _named(self, label: str, found: Loose) -> TensorType:
        dtype, shape = found
        if shape is None:
            return TensorType(dtype, None)
        dims = []
        for axis, size in enumerate(shape):
            dims.append(symbol(self._fresh_symbol(f"%{label}.{axis}")) if size is None else size)
        return TensorType(dtype, tuple(dims))

    def _shapes(self) -> Iterator[tuple[Dim, ...] | None]:
        """The shapes of the values so far."""
        yield from (value.type.shape for value in self.args)
        yield from (value.type.shape for op in self.ops for value in op.results)
        if self.parent is not None:
            yield from self.parent._shapes()

    def _define_axes(self, value: Value, found: Loose) -> None:
        _, shape = found
        for axis, size in enumerate(shape or ()):
            if size is None:
                (label,) = value.type.dims[axis].symbols()
                self.symbols.append(SymbolDef(label, value, axis=axis))

    def _track_elements(
        self,
        decl: OpDecl,
        operands: Sequence[Value],
        attrs: Mapping[str, Any],
        results: tuple[Value, ...],
        scope: _Scope,
    ) -> None:
        if decl.elements is None or len(results) != 1 or not holds_sizes(results[0].type):
            return
        fixed = operands if decl.variadic else operands[: len(decl.operands)]
        known = [self.elements(operand) for operand in fixed]
        types = (*(operand.type for operand in fixed), results[0].type)
        own = _Scope(self._decide, scope.source)
        found = decl.elements(own, known, attrs, types)
        if found is not None and not any(may_leave(each, self._shapes()) for each in own.requires):
            scope.requires.update(own.requires)
            found = object_array([item if _short(item) else None for item in found.reshape(-1)], found.shape)
            if any(item is not None for item in found.reshape(-1)):
                self._elements[results[0]] = found


TensorDeclaration = tuple[str, "tuple[int | None, ...] | None"]


def _short(item: Element) -> bool:
    """Whether an element is worth to be followed: choices of choices grow by a factor each."""
    return not isinstance(item, Dim) or sum(1 + monomial_weight(mono) for mono, _ in item.terms) <= LONGEST


def _keeps(op: Op) -> bool:
    """Whether a conversion keeps every integer."""
    dtypes = [value.type.dtype for value in (op.operands[0], op.result)]
    if not all(map(is_integer, dtypes)):
        return False
    (low, high), (least, most) = map(integer_range, dtypes)
    return least <= low and high <= most


def small(type: TensorType) -> bool:
    """True for integer and i1 tensors of static shape that are small enough to be shape code."""
    return (is_integer(type.dtype) or type.dtype == "i1") and _few(type, ELEMENT_LIMIT)


def holds_sizes(type: TensorType) -> bool:
    """True for tensors whose elements are followed: small ones, and those of a few floats, which may hold sizes."""
    return small(type) or (is_float(type.dtype) and _few(type, FLOATS))


def _few(type: TensorType, most: int) -> bool:
    total = 1
    for dim in type.shape or ():
        if dim.const is None:
            return False
        total *= dim.const
    return type.shape is not None and total <= most


def _show(dtype: str, shape: Sequence[Any] | None) -> str:
    return f"{dtype}[*]" if shape is None else f"{dtype}[{', '.join('?' if d is None else str(d) for d in shape)}]"
