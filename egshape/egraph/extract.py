"""Choose one e-node a class: cheapest as a DAG, acyclic, also through the sizes that a node's shapes are made of.

A class is settled when all that its node reads is settled (Knuth's generalization of Dijkstra), so no choice can be
cyclic. The cost of a shared operand is divided by the number of classes that may read it; a second pass looks at each
choice again with what is really used, and takes an alternative only if that needs no class that needs this one."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from egshape.dims import Dim
from egshape.egraph.cost import HEAVY, LIGHT, CostModel, swells
from egshape.egraph.saturate import Saturated
from egshape.egraph.snapshot import ENode
from egshape.errors import InternalError
from egshape.ir.arrays import is_splat
from egshape.ir.graph import Op, SymbolDef, dims_of
from egshape.limits import tick
from egshape.ops.base import Registry
from egshape.rulelang.schema import ELEMENTWISE, constructor, has_constructor

HORIZON = 64
"""How many classes below a choice are looked at when it is made again."""

_UNTYPED = frozenset(("Node", "Call", "Proj"))
"""Terms that may stand without a type: leaves without a rank, calls with several results."""

_ELEMENTWISE = frozenset(family.capitalize() for family in ELEMENTWISE)

REFINEMENTS = 8
"""Passes over the choices with the real sharing."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An e-node as extraction sees it: what it reads, and what it costs itself."""

    node: ENode
    reads: tuple[int, ...]
    cost: float


class Extraction:
    """The chosen e-node of each class that can be reached, with readers for sorts other than tensors."""

    def __init__(
        self,
        saturated: Saturated,
        registry: Registry,
        model: CostModel,
        symbols: dict[str, SymbolDef],
        leaves: Callable[[int], Sequence[int] | None],
    ) -> None:
        """``symbols`` are the data-dependent ones; ``leaves(node)`` gives the nodes that a leaf depends on, or None
        if the node is no leaf."""
        snapshot = saturated.snapshot
        self.snapshot = snapshot
        self.encoding = saturated.encoding
        self.model = model
        self.normal: Callable[[Dim], Dim] = saturated.sizes.normal_form
        self.dims = saturated.host.dims(snapshot)
        self.shapes = saturated.host.shapes(snapshot, self.dims)
        self.shape_of = snapshot.mapping("ShapeOf")
        self.dtype_of = snapshot.mapping("dtype_of")
        self.class_of_node = snapshot.mapping("Node")
        self._symbols = symbols
        self._leaves = leaves
        self._lists = self._read_lists()
        self._size_reads: dict[int, tuple[int, ...]] = {}
        self._sorts = _sorts(registry)
        self.candidates = self._candidates()
        self.order: dict[int, float]
        """A class stands after all that its choice reads."""
        self.chosen: dict[int, Candidate]
        self._height: dict[int, float]
        """The cost of the longest chain of choices that ends in a class."""
        self._settle()

    # -- reading -------------------------------------------------------------------------------------------------

    def _read_lists(self) -> dict[int, tuple[int, ...]]:
        rows = {cls: (head, tail) for head, tail, cls in self.snapshot.table("Cons")}
        out: dict[int, tuple[int, ...]] = {cls: () for (cls,) in self.snapshot.table("Nil")}

        def read(cls: int) -> tuple[int, ...]:
            chain = []
            while cls not in out:
                chain.append(cls)
                cls = rows[cls][1]
            for each in reversed(chain):
                out[each] = (rows[each][0], *out[rows[each][1]])
            return out[chain[0]] if chain else out[cls]

        for cls in rows:
            read(cls)
        return out

    def items(self, cls: int) -> tuple[int, ...]:
        """The tensors of a list."""
        return self._lists[cls]

    def shape(self, cls: int) -> tuple[Dim, ...]:
        """The sizes of a class of shapes. Raises InternalError for one that nobody named."""
        try:
            return self.shapes[cls]
        except KeyError:
            raise InternalError("a shape in the e-graph was never named by the exchange") from None

    def size_reads(self, dims: Iterable[Dim]) -> tuple[int, ...]:
        """The classes of the values that define the data-dependent symbols of some sizes."""
        out: dict[int, None] = {}
        for dim in dims:
            known = self._size_reads.get(dim.id)
            if known is None:
                known = tuple(
                    self.class_of_node[self.encoding.node_of[self._symbols[name].value]]
                    for name in sorted(dim.symbols())
                    if name in self._symbols
                )
                self._size_reads[dim.id] = known
            out.update(dict.fromkeys(known))
        return tuple(out)

    def held_reads(self, op: Op, apart: Sequence[str] = ()) -> tuple[int, ...]:
        """The classes of the values that define the data-dependent symbols of an op that is kept as it is: in its
        attributes but those of the names ``apart``, in its results, and anywhere in its regions."""
        if not self._symbols:
            return ()
        dims = [dim for name, attr in op.attrs.items() if name not in apart for dim in dims_of(attr)]
        types = [dim for value in op.results for dim in value.type.shape or ()]
        dims += [*types, *map(self.normal, types)]
        for inner in (each for region in op.regions for each in region.walk()):
            dims += [dim for attr in inner.attrs.values() for dim in dims_of(attr)]
            dims += [dim for value in inner.results for dim in value.type.shape or ()]
        own = {
            self.class_of_node[self.encoding.node_of[value]] for value in op.results if value in self.encoding.node_of
        }
        return tuple(cls for cls in self.size_reads(dims) if cls not in own)

    # -- candidates ----------------------------------------------------------------------------------------------

    def _candidates(self) -> dict[int, list[Candidate]]:
        bytes_of: dict[int, float] = {}
        for cls, shape in self.shape_of.items():
            dtype = self.dtype_of.get(cls)
            if dtype is not None and shape in self.shapes:
                bytes_of[cls] = self.model.bytes(dtype, self.shapes[shape])
        out: dict[int, list[Candidate]] = defaultdict(list)
        for name, sorts in self._sorts.items():
            for row in self.snapshot.table(name):
                tick()
                *args, cls = row
                if cls not in bytes_of and name not in _UNTYPED:
                    continue  # a term that no shape function gave a type
                found = self._candidate(name, sorts, args, bytes_of.get(cls, 0.0), bytes_of)
                if found is not None:
                    out[cls].append(found)
        return out

    def _candidate(
        self, name: str, sorts: tuple[str, ...], args: list[int], written: float, bytes_of: dict[int, float]
    ) -> Candidate | None:
        reads: list[int] = []
        sizes: tuple[int, ...] = ()
        if name == "Node":
            found = self._leaves(args[0])
            if found is None:
                return None
            reads = [self.class_of_node[node] for node in found]
            if args[0] in self.encoding.op_of_node:
                sizes = self.held_reads(self.encoding.op_of_node[args[0]][1])
        elif name == "Call":
            call = self.encoding.calls[args[0]]
            sizes = self.held_reads(call.op, call.sizes)
        for sort, arg in zip(sorts, args, strict=True):
            if sort == "T":
                reads.append(arg)
            elif sort == "Ts":
                reads.extend(self._lists[arg])
            elif sort == "Shape":
                if arg not in self.shapes:
                    return None
                if self._symbols:
                    sizes += self.size_reads(self.shapes[arg])
        unique = tuple(dict.fromkeys(reads))
        read = sum([bytes_of.get(each, 0.0) for each in unique])
        return Candidate(
            ENode(name, tuple(args)), tuple(dict.fromkeys((*unique, *sizes))), self.model.node(name, written, read)
        )

    # -- choice --------------------------------------------------------------------------------------------------

    def _settle(self, uses: Mapping[int, int] | None = None) -> None:
        """Choose anew. ``uses``: how many read each class in the choices so far; else each is taken to be read by all
        that may."""
        self.order, self.chosen, self._height = {}, {}, {}
        readers: dict[int, list[tuple[int, Candidate]]] = defaultdict(list)
        parents: dict[int, set[int]] = defaultdict(set)
        missing: dict[int, int] = {}
        heap: list[tuple[float, int, int]] = []
        ready: list[tuple[int, Candidate]] = []
        settled: dict[int, float] = {}

        def offer(cls: int, candidate: Candidate) -> None:
            cost = candidate.cost + sum([settled[read] / shares[read] for read in candidate.reads])
            ready.append((cls, candidate))
            heapq.heappush(heap, (cost, len(ready) - 1, cls))

        for cls, candidates in self.candidates.items():
            for candidate in candidates:
                missing[id(candidate)] = len(candidate.reads)
                for read in candidate.reads:
                    readers[read].append((cls, candidate))
                    parents[read].add(cls)
        shares = {read: len(found) if uses is None else max(uses.get(read, 0), 1) for read, found in parents.items()}
        for cls, candidates in self.candidates.items():
            for candidate in candidates:
                if not candidate.reads:
                    offer(cls, candidate)
        while heap:
            tick()
            cost, place, cls = heapq.heappop(heap)
            if cls in settled:
                continue
            settled[cls] = cost
            self.order[cls] = float(len(self.order))
            self.chosen[cls] = ready[place][1]
            self._stand(cls)
            for reader, candidate in readers[cls]:
                missing[id(candidate)] -= 1
                if missing[id(candidate)] == 0 and reader not in settled:
                    offer(reader, candidate)

    def _stand(self, cls: int) -> None:
        chosen = self.chosen[cls]
        self._height[cls] = chosen.cost + self._deep(chosen)

    def choose(self, roots: Sequence[int]) -> tuple[int, ...]:
        """Make the choices for what the roots need final.

        Where its constants would take more bytes than those of the program itself a byte of them counts for more than
        any op, so that each part that would grow stays as it was. Gives the classes that are computed for that."""
        self._search(roots)
        folded = {cls: self.chosen[cls] for cls in self.used(roots) if self.chosen[cls].node.function == "constant"}
        if not swells(self._bytes(folded.values()), self._bytes(self._own_constants())):
            return ()
        for cls, options in self.candidates.items():
            self.candidates[cls] = [
                replace(each, cost=each.cost + HEAVY * size) if (size := self._size(each)) > LIGHT else each
                for each in options
            ]
        self._settle()
        self._search(roots)
        used = self.used(roots)
        return tuple(cls for cls in sorted(folded) if cls in used and self.chosen[cls].node.function != "constant")

    def _search(self, roots: Sequence[int]) -> None:
        """Refine the choices; then once more from choices that know what is really shared, if that is cheaper."""
        self.refine(roots)
        found, before = (self.order, self.chosen, self._height), self._total(roots)
        self._settle(self._uses(roots))
        self.refine(roots)
        if self._total(roots) > before - 1e-6:
            self.order, self.chosen, self._height = found
        self._stay(roots)

    def _own_constants(self) -> Iterator[Candidate]:
        """The constants of the program itself."""
        for node, (_, op) in self.encoding.op_of_node.items():
            if op.name == "constant":
                options = self.candidates[self.class_of_node[node]]
                yield from (each for each in options if each.node.function == "constant")

    def _bytes(self, constants: Iterable[Candidate]) -> int:
        """What constants take in a file, each once."""
        return sum({each.node.args[0]: self._size(each) for each in constants}.values())

    def _size(self, candidate: Candidate) -> int:
        """The bytes of a constant, of one whose elements are all the same those of one; 0 for other nodes."""
        if candidate.node.function != "constant":
            return 0
        array = self.encoding.constants[candidate.node.args[0]]
        return array.itemsize if array.nbytes > LIGHT and is_splat(array) else array.nbytes

    def refine(self, roots: Iterable[int]) -> None:
        """Look at each choice again with what the roots really use."""
        roots = list(roots)
        for _ in range(REFINEMENTS):
            uses = self._uses(roots)
            ordered = sorted(self.used(roots), key=self.order.__getitem__)
            for cls in ordered:
                self._stand(cls)
            if not self._improve(ordered[::-1], uses):
                return

    def _uses(self, roots: Iterable[int]) -> dict[int, int]:
        """How many of what the roots need read a class, the roots themselves included."""
        uses: dict[int, int] = defaultdict(int)
        for cls in self.used(roots):
            for read in self.chosen[cls].reads:
                uses[read] += 1
        for root in roots:
            uses[root] += 1
        return uses

    def _stay(self, roots: Sequence[int]) -> None:
        """Take the ops of the program itself where the choices found cost no less than these: what was optimized before
        then comes out as it went in. They read ops before them, so each class takes its first."""
        found, order = dict(self.chosen), dict(self.order)
        before = self._total(roots)
        self.chosen.update(self._own_ops())
        places = self._topological() if self._total(roots) <= before + 1e-6 else None
        if places is not None:
            self.order = places
            self.refine(roots)
            return
        self.chosen, self.order = found, order

    def _total(self, roots: Sequence[int]) -> float:
        return sum(self.chosen[cls].cost for cls in sorted(self.used(roots)))

    def _own_ops(self) -> dict[int, Candidate]:
        out: dict[int, Candidate] = {}
        for node, (_, op) in sorted(self.encoding.op_of_node.items(), key=lambda each: (each[1][0], each[0])):
            cls = self.class_of_node[node]
            if cls in out or cls not in self.chosen or self.chosen[cls].cost == 0.0:
                continue  # a leaf is never worse
            reads = [
                self.class_of_node[self.encoding.node_of[value]]
                for value in op.operands
                if value in self.encoding.node_of
            ]
            for option in self.candidates[cls]:
                operands = self._operands(option.node)
                name = str(option.node.args[0]) if option.node.function in _ELEMENTWISE else option.node.function
                if (
                    name.partition(".")[0] == op.name
                    and operands == reads[: len(operands)]
                    and all(read in self.chosen for read in option.reads)
                ):
                    out[cls] = option
                    break
        return out

    def _operands(self, node: ENode) -> list[int]:
        out: list[int] = []
        for sort, arg in zip(self._sorts[node.function], node.args, strict=True):
            out += [arg] if sort == "T" else self._lists[arg] if sort == "Ts" else []
        return out

    def _topological(self) -> dict[int, float] | None:
        """Places at which each class stands after what it reads; None if the choices are cyclic."""
        out: dict[int, float] = {}
        open_: set[int] = set()
        for root in self.chosen:
            stack = [root]
            while stack:
                cls = stack[-1]
                waiting = [read for read in self.chosen[cls].reads if read not in out] if cls not in out else []
                if not waiting:
                    stack.pop()
                    open_.discard(cls)
                    out.setdefault(cls, float(len(out)))
                    continue
                open_.add(cls)
                if not open_.isdisjoint(waiting):
                    return None
                stack += waiting
        return out

    def _improve(self, classes: Sequence[int], uses: dict[int, int]) -> bool:
        changed = False
        for cls in classes:
            tick()
            options = self.candidates[cls]
            if len(options) < 2 or uses[cls] == 0:
                continue
            current = self.chosen[cls]
            base, released = self._release(current, uses)
            best, moved = current, dict[int, float]()
            turns: list[Candidate] = []
            for option in options:
                if option is current:
                    continue
                places = self._places(cls, option)
                if places is None:
                    turns += [option] if len(option.reads) == 1 else []
                    continue
                cost = self._added(option, uses)
                if cost < base - 1e-9 or (cost < base + 1e-9 and self._deep(option) < self._deep(best)):
                    base, best, moved = min(cost, base), option, places
            if best is current:
                for read in released:
                    uses[read] += 1
                changed |= any(self._turn(cls, option, uses) for option in turns)
            else:
                self._hold(best, uses)
                self.chosen[cls] = best
                self.order.update(moved)
                changed = True
        return changed

    def _deep(self, candidate: Candidate) -> float:
        """The longest chain before a candidate: of two that cost the same, the one that needs less is taken. What else
        is used now may be gone when it is asked again (a region no longer reads it), or once its other readers turned
        away from it, too."""
        return max([self._height[read] for read in candidate.reads], default=0.0)

    def _turn(self, cls: int, option: Candidate, uses: dict[int, int]) -> bool:
        """Where an option moves a class that is itself a move of ``cls`` now, turn both around if another choice for
        that class makes it cheaper; True if it was done."""
        (made,) = option.reads
        current = self.chosen.get(made)
        if current is None or cls not in current.reads or uses[made] == 0 or uses[cls] < 2:
            return False
        before, released = self._release(current, uses)
        more, also = self._release(self.chosen[cls], uses)
        end = self.order[cls]
        for other in self.candidates[made]:
            start = max((self.order.get(read, end) for read in other.reads), default=-1.0)
            place = (start + end) / 2
            if start < place < end and option.cost + self._added(other, uses) < before + more - 1e-9:
                self._hold(other, uses)
                self._hold(option, uses)
                self.chosen.update({made: other, cls: option})
                self.order[made] = place
                return True
        for read in (*released, *also):
            uses[read] += 1
        return False

    def _places(self, cls: int, option: Candidate) -> dict[int, float] | None:
        """Where the classes that an option needs, and that stand behind ``cls``, would stand before it; None if one of
        them needs ``cls`` itself, or they are too many."""
        end, start = self.order[cls], -1.0
        found: set[int] = set()
        stack = list(option.reads)
        while stack:
            read = stack.pop()
            place = self.order.get(read)
            if place is None or read == cls or len(found) > HORIZON:
                return None
            if place < end:
                start = max(start, place)
            elif read not in found:
                found.add(read)
                stack.extend(self.chosen[read].reads)
        step = (end - start) / (len(found) + 1)
        if start + step <= start or end - step >= end:
            return None  # no number is left between them
        moved = sorted(found, key=self.order.__getitem__)
        return {read: start + step * place for place, read in enumerate(moved, start=1)}

    def _release(self, candidate: Candidate, uses: dict[int, int]) -> tuple[float, list[int]]:
        """Take a candidate's uses away: what it and all that only it needed costs, and the uses taken.

        Looks at ``HORIZON`` classes at most: what lies deeper is the same for all options, as a rule."""
        total, stack = candidate.cost, list(candidate.reads)
        released: list[int] = []
        while stack and len(released) < HORIZON:
            read = stack.pop()
            uses[read] -= 1
            released.append(read)
            if uses[read] == 0:
                total += self.chosen[read].cost
                stack.extend(self.chosen[read].reads)
        return total, released

    def _hold(self, candidate: Candidate, uses: dict[int, int]) -> None:
        stack = list(candidate.reads)
        while stack:
            read = stack.pop()
            uses[read] += 1
            if uses[read] == 1:
                stack.extend(self.chosen[read].reads)

    def _added(self, candidate: Candidate, uses: dict[int, int]) -> float:
        """What a candidate costs with what it needs beyond what is used."""
        total, stack = candidate.cost, list(candidate.reads)
        seen: set[int] = set()
        while stack and len(seen) < HORIZON:
            read = stack.pop()
            if uses[read] > 0 or read in seen:
                continue
            seen.add(read)
            total += self.chosen[read].cost
            stack.extend(self.chosen[read].reads)
        return total

    def used(self, roots: Iterable[int]) -> set[int]:
        """The classes that the roots need. Raises InternalError if one has no acyclic choice."""
        seen: set[int] = set()
        stack = list(roots)
        while stack:
            cls = stack.pop()
            if cls in seen:
                continue
            seen.add(cls)
            if cls not in self.chosen:
                raise InternalError("a value has no acyclic choice in the e-graph")
            stack.extend(self.chosen[cls].reads)
        return seen


def _sorts(registry: Registry) -> dict[str, tuple[str, ...]]:
    """Argument sorts of each constructor of tensors."""
    out: dict[str, tuple[str, ...]] = {"Node": ("i64",), "Call": ("i64", "Ts", "Shape"), "Proj": ("T", "i64")}
    for family, arity in ELEMENTWISE.items():
        out[family.capitalize()] = ("String", *["T"] * arity)
    for decl in registry:
        if has_constructor(decl):
            form = constructor(decl)
            out[form.name] = (*form.operands, *form.attrs)
    return out
