"""The engine's program: the shipped rulesets, those of the user, and which of them run when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from egshape.decide import reason
from egshape.egraph.exchange import SHAPE_RULESETS
from egshape.egraph.tracing import Application, Tracing
from egshape.ops import REGISTRY
from egshape.rulelang import python_names
from egshape.rulelang.lint import refuse_wrong
from egshape.rulelang.loader import LoadedRules, Loader, Rule, find_rulesets
from egshape.rulelang.piece import Piece
from egshape.rulelang.schema import declarations, has_constructor, load_rules
from egshape.rulelang.sexpr import List, SExpr

TENSOR_RULESETS = (
    "tensor.types",
    "tensor.reshape",
    "tensor.transpose",
    "tensor.broadcast",
    "tensor.slice",
    "tensor.count",
    "tensor.neutral",
)
SOURCES = "prelude.tensor"
"""The rules of the generated prelude: what each move was made of."""
STATES = "must_"
"""Rules whose actions begin so say what an op implies; they run once, before anything is rewritten."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A program for looking at rules: each a ruleset of its own (``split``), some of them never run (``without``, which
    needs split) or not loaded at all (``omit``), every application kept (``trace``)."""

    split: bool = False
    without: frozenset[str] = frozenset()
    trace: bool = False
    omit: frozenset[str] = frozenset()


PLAIN = Variant()


@dataclass(frozen=True, slots=True)
class Program:
    """The engine's program: all pieces, the rules in it, and the rulesets that run in each phase.

    ``makes``: ops that rules of the user may make, whose types Python infers."""

    pieces: tuple[Piece, ...]
    rules: LoadedRules
    phases: tuple[str, ...]
    size_phases: tuple[str, ...]
    obligations: tuple[str, ...]
    makes: frozenset[str]
    explains: bool
    base: tuple[str, ...] = ()
    """The rulesets that are not the user's."""
    applications: tuple[Application, ...] = ()
    """Where each application of a rule over tensors is kept, in a program that keeps them."""

    def fired(self, rewrites: Iterable[str]) -> bool:
        """Whether a rule of the user is among those that rewrote something."""
        rules = (self.rules.by_name.get(reason.Rule.of(name).name) for name in rewrites)
        return any(rule is not None and rule.ruleset not in self.base for rule in rules)


def shipped() -> tuple[str, ...]:
    """The rulesets that every optimization runs."""
    return (*SHAPE_RULESETS, *TENSOR_RULESETS)


def preludes() -> dict[str, str]:
    """The preludes that are generated from the op declarations, by name."""
    return {"prelude.tensor": declarations(REGISTRY)}


def program(extra: tuple[str, ...] = (), explain: bool = True, variant: Variant = PLAIN) -> Program:
    """The shipped rulesets and ``extra`` ones, by path or name, as one program; made once for each content.

    Raises EgshapeError for a wrong file or an unknown name."""
    found = tuple(item for each in extra for item in find_rulesets(each))
    return _program(found, explain, variant, REGISTRY.version, stamp(found), shipped())


def forget_programs() -> None:
    """Drop all programs, for tests that change a shipped file."""
    _program.cache_clear()


def stamp(items: tuple[str, ...]) -> tuple[object, ...]:
    """What changes when a file does, or one beside it that it may need, or a rule that is declared anew."""
    python = python_names.with_needed(items)
    folders = {Path(item).parent for item in items if item.endswith(".egg")} | {each.folder for each in python}
    every = sorted(path for folder in folders if folder.is_dir() for path in folder.glob("*.egg"))
    files = [(str(path), status.st_mtime_ns, status.st_size) for path in every for status in [path.stat()]]
    return (*(each.text for each in python), *files)


@lru_cache(maxsize=8)
def _program(
    extra: tuple[str, ...], explain: bool, variant: Variant, version: int, stamp: object, base: tuple[str, ...]
) -> Program:
    generated = preludes()
    _checked(extra, version, stamp)
    loader = (Tracing if variant.trace else Loader)(generated, explain, variant.split, variant.omit)
    for item in (*base, *extra):
        loader.load(item, "")
    loaded = loader.loaded()
    load = tuple(Piece(text, "<load rules>") for text in load_rules(REGISTRY))
    sizes, obligations, tensors = ["prelude.shape"], [], []
    for name in loaded.names():
        if any(states(rule) for rule in loaded.rules if rule.ruleset == name):
            obligations.append(name)
        elif "prelude.tensor" in loaded.needed(name):
            tensors.append(name)
        else:
            sizes.append(name)
    own = [rule for rule in loaded.rules if rule.ruleset not in base]
    shapes = [name for name in SHAPE_RULESETS if name in sizes]  # in their own order, those of the user after them
    sizes = ["prelude.shape", *shapes, *(name for name in sizes if name not in (*shapes, "prelude.shape"))]

    def phases(names: Iterable[str]) -> tuple[str, ...]:
        return tuple(phase for name in names for phase in loaded.phases(name) if phase not in variant.without)

    return Program(
        (*loaded.pieces, *load),
        loaded,
        (SOURCES, *phases(tensors)),
        phases(sizes),
        phases(obligations),
        _made(own),
        explain,
        base,
        tuple(loader.applications) if isinstance(loader, Tracing) else (),
    )


@lru_cache(maxsize=8)
def _checked(extra: tuple[str, ...], version: int, stamp: object) -> None:
    """Refuse wrong files, once for each content. Raises EgshapeError."""
    if extra:
        refuse_wrong(extra, preludes())


def states(rule: Rule) -> bool:
    """Whether a rule says what an op implies."""
    return any(head.startswith(STATES) for head in _heads(_actions(rule)))


def fills(rule: Rule) -> bool:
    """Whether a rule fills tables of its author only, so that by itself it says nothing of sizes or tensors."""
    actions = _actions(rule)
    if rule.command.head != "rule" or not isinstance(actions, List):
        return False
    known = program().rules.scheme.signatures
    written = [_written(each) for each in actions.items if isinstance(each, List) and each.head != "let"]
    return bool(written) and not any(name in known or name in ("union", "subsume", "delete") for name in written)


def _written(action: List) -> str:
    """What an action writes to: a function that it sets, or the table that it names."""
    target = action.items[1] if action.head == "set" else action
    return target.head if isinstance(target, List) else ""


def _made(rules: Iterable[Rule]) -> frozenset[str]:
    names = {decl.name for decl in REGISTRY if has_constructor(decl)}
    return frozenset(head for rule in rules for head in _heads(_actions(rule)) if head in names)


def _actions(rule: Rule) -> SExpr:
    command = rule.command
    return command if command.head == "birewrite" else command.items[2]


def _heads(expr: SExpr) -> Iterable[str]:
    if isinstance(expr, List):
        yield expr.head
        for item in expr.items:
            yield from _heads(item)
