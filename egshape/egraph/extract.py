"""Choose one e-node a class: cheapest as a DAG, acyclic, also through the sizes that a node's shapes are made of.

A class is settled when all that its node reads is settled (Knuth's generalization of Dijkstra), so no choice can be
cyclic. The cost of a shared operand is divided by the number of classes that may read it; a second pass looks at each
choice again with what is really used, and takes an alternative only if that needs no class that needs this one."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from egshape.egraph.cost import HEAVY, LIGHT
from egshape.egraph.terms import Candidate, Terms
from egshape.errors import InternalError
from egshape.frontends.frontend import swells
from egshape.ir.arrays import is_splat
from egshape.limits import tick
from egshape.rulelang.schema import ELEMENTWISE

HORIZON = 64
"""How many classes below a choice are looked at when it is made again."""

_ELEMENTWISE = frozenset(family.capitalize() for family in ELEMENTWISE)

REFINEMENTS = 8
"""Passes over the choices with the real sharing."""


@dataclass(frozen=True)
class Extraction:
    """The chosen e-node of each class that can be reached.

    order: a class stands after all that its choice reads. roots: the classes that the result must compute. computed:
    those that are the same at every run, and would make the program grow as constants."""

    terms: Terms
    roots: Sequence[int]
    chosen: Mapping[int, Candidate]
    order: Mapping[int, float]
    computed: Sequence[int] = ()

    def used(self) -> set[int]:
        """The classes that the roots need."""
        return _reached(self.chosen, self.roots)


def extracted(terms: Terms, roots: Sequence[int]) -> Extraction:
    """The cheapest choice for what the roots need. Raises InternalError if one of them has no acyclic choice."""
    chooser = _Chooser(terms, roots)
    computed = chooser.choose()
    return Extraction(terms, roots, chooser.chosen, chooser.order, computed)


class _Chooser:
    """Choices while they are made. ``height``: what the longest chain of choices that ends in a class moves."""

    def __init__(self, terms: Terms, roots: Sequence[int]) -> None:
        self.terms = terms
        self.roots = roots
        self.candidates: dict[int, Sequence[Candidate]] = dict(terms.candidates)
        self.order: dict[int, float] = {}
        self.chosen: dict[int, Candidate] = {}
        self._height: dict[int, float] = {}
        self._list()
        self._settle()

    def _list(self) -> None:
        """Number the candidates; which of them read a class, and how many classes do."""
        self._numbered = [(cls, each) for cls, found in self.candidates.items() for each in found]
        self._readers: dict[int, list[int]] = defaultdict(list)
        parents: dict[int, set[int]] = defaultdict(set)
        for number, (cls, candidate) in enumerate(self._numbered):
            for read in candidate.reads:
                self._readers[read].append(number)
                parents[read].add(cls)
        self._parents = {read: len(found) for read, found in parents.items()}

    def _settle(self, uses: Mapping[int, int] | None = None) -> None:
        """Choose anew. ``uses``: how many read each class in the choices so far; else each is taken to be read by all
        that may, and arithmetic is left out: a share of a large product that is a guess would outweigh all moves."""
        self.order, self.chosen, self._height = {}, {}, {}
        shares = self._parents if uses is None else {read: max(uses.get(read, 0), 1) for read in self._parents}
        missing = [len(candidate.reads) for _, candidate in self._numbered]
        settled: dict[int, float] = {}
        heap: list[tuple[float, int, int]] = []
        offers = count()

        def offer(number: int) -> None:
            candidate = self._numbered[number][1]
            own = candidate.moves if uses is None else candidate.cost
            cost = own + sum([settled[read] / shares[read] for read in candidate.reads])
            heapq.heappush(heap, (cost, next(offers), number))

        for number, needs in enumerate(missing):
            if not needs:
                offer(number)
        while heap:
            tick()
            cost, _, number = heapq.heappop(heap)
            cls, candidate = self._numbered[number]
            if cls in settled:
                continue
            settled[cls] = cost
            self.order[cls] = float(len(self.order))
            self.chosen[cls] = candidate
            self._stand(cls)
            for reader in self._readers.get(cls, ()):
                missing[reader] -= 1
                if missing[reader] == 0 and self._numbered[reader][0] not in settled:
                    offer(reader)

    def _stand(self, cls: int) -> None:
        chosen = self.chosen[cls]
        self._height[cls] = chosen.moves + self._deep(chosen)

    def choose(self) -> tuple[int, ...]:
        """Make the choices for what the roots need final.

        Where its constants would take more bytes than those of the program itself a byte of them counts for more than
        any op, so that each part that would grow stays as it was. Gives the classes that are computed for that."""
        self._search()
        folded = {cls: self.chosen[cls] for cls in self._used() if self.chosen[cls].node.function == "constant"}
        if not swells(self._bytes(folded.values()), self._bytes(self._own_constants())):
            return ()
        for cls, options in self.candidates.items():
            self.candidates[cls] = [
                each._replace(cost=each.cost + HEAVY * size, moves=each.moves + HEAVY * size)
                if (size := self._size(each)) > LIGHT
                else each
                for each in options
            ]
        self._list()
        self._settle()
        self._search()
        used = self._used()
        return tuple(cls for cls in sorted(folded) if cls in used and self.chosen[cls].node.function != "constant")

    def _search(self) -> None:
        """Refine the choices; then once more from choices that know what is really shared, if that is cheaper."""
        self._refine()
        found, before = (self.order, self.chosen, self._height), self._total()
        self._settle(self._uses(self._used()))
        self._refine()
        if self._total() > before - 1e-6:
            self.order, self.chosen, self._height = found
        self._stay()

    def _used(self) -> set[int]:
        return _reached(self.chosen, self.roots)

    def _own_constants(self) -> Iterator[Candidate]:
        """The constants of the program itself."""
        for node, (_, op) in self.terms.encoding.op_of_node.items():
            if op.name == "constant":
                options = self.candidates.get(self.terms.class_of_node[node], ())
                yield from (each for each in options if each.node.function == "constant")

    def _bytes(self, constants: Iterable[Candidate]) -> int:
        """What constants take in a file, each once."""
        return sum({each.node.args[0]: self._size(each) for each in constants}.values())

    def _size(self, candidate: Candidate) -> int:
        """The bytes of a constant, of one whose elements are all the same those of one; 0 for other nodes."""
        if candidate.node.function != "constant":
            return 0
        array = self.terms.encoding.constants[candidate.node.args[0]]
        return array.itemsize if array.nbytes > LIGHT and is_splat(array) else array.nbytes

    def _refine(self) -> None:
        """Look at each choice again with what the roots really use."""
        for _ in range(REFINEMENTS):
            used = self._used()
            uses = self._uses(used)
            ordered = sorted(used, key=self.order.__getitem__)
            for cls in ordered:
                self._stand(cls)
            if not self._improve(ordered[::-1], uses):
                return

    def _uses(self, used: Iterable[int]) -> dict[int, int]:
        """How many of what the roots need read a class, the roots themselves included."""
        uses: dict[int, int] = defaultdict(int)
        for cls in used:
            for read in self.chosen[cls].reads:
                uses[read] += 1
        for root in self.roots:
            uses[root] += 1
        return uses

    def _stay(self) -> None:
        """Take the ops of the program itself where the choices found cost no less than these: what was optimized before
        then comes out as it went in. They read ops before them, so each class takes its first."""
        found, order = dict(self.chosen), dict(self.order)
        before = self._total()
        self.chosen.update(self._own_ops())
        places = self._topological() if self._total() <= before + 1e-6 else None
        if places is not None:
            self.order = places
            self._refine()
            return
        self.chosen, self.order = found, order

    def _total(self) -> float:
        return sum(self.chosen[cls].cost for cls in sorted(self._used()))

    def _own_ops(self) -> dict[int, Candidate]:
        out: dict[int, Candidate] = {}
        for node, (_, op) in sorted(self.terms.encoding.op_of_node.items(), key=lambda each: (each[1][0], each[0])):
            cls = self.terms.class_of_node[node]
            if cls in out or cls not in self.chosen or self.chosen[cls].cost == 0.0:
                continue  # a leaf is never worse
            reads = [
                self.terms.class_of_node[self.terms.encoding.node_of[value]]
                for value in op.operands
                if value in self.terms.encoding.node_of
            ]
            for option in self.candidates.get(cls, ()):
                operands = self.terms.operands(option.node)
                name = str(option.node.args[0]) if option.node.function in _ELEMENTWISE else option.node.function
                if (
                    name.partition(".")[0] == op.name
                    and operands == reads[: len(operands)]
                    and all(read in self.chosen for read in option.reads)
                ):
                    out[cls] = option
                    break
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
            options = self.candidates[cls]
            if len(options) < 2 or uses[cls] == 0:
                continue
            tick()
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


def _reached(chosen: Mapping[int, Candidate], roots: Iterable[int]) -> set[int]:
    """The classes that the roots need. Raises InternalError if one has no acyclic choice."""
    seen: set[int] = set()
    stack = list(roots)
    while stack:
        cls = stack.pop()
        if cls in seen:
            continue
        seen.add(cls)
        if cls not in chosen:
            raise InternalError("a value has no acyclic choice in the e-graph")
        stack.extend(chosen[cls].reads)
    return seen
