"""Loader of `.egg` rulesets: finds them, in the order that their `needs:` ask for.

A ruleset file is read once (`rulelang/rulefile.py`) and becomes small pieces of program text for the engine plus a
table of its rules. rulesets/README.md is the law that it enforces.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from egshape.decide import reason
from egshape.errors import EgshapeError
from egshape.rulelang import plugins, python_names
from egshape.rulelang.piece import Piece
from egshape.rulelang.provenance import EquationLog, PlainRule, Scheme, declarations, desugar, with_provenance
from egshape.rulelang.rulefile import (
    Example,
    Rule,
    RuleFile,
    Ruleset,
    is_approximate,
    is_prelude,
    read_rule_file,
    unknown_listed,
)
from egshape.rulelang.sexpr import List, Position, read
from egshape.rulelang.size_decl import SizeDecl
from egshape.spelling import nearest

__all__ = ["Example", "LoadedRules", "Rule", "Ruleset", "find_rulesets", "is_approximate", "is_prelude",
           "load_rulesets", "shipped_rulesets"]  # fmt: skip


CONTRACTS = "ops."
"""Files of this folder hold contracts (``rulelang/contract.py``), and no rules."""


@dataclass(frozen=True, slots=True)
class LoadedRules:
    """A program for the engine, and what is known about its rules.

    `rulesets` are in loading order; `logs` has the equation logs of instrumented rules; `scheme` the declarations;
    `sources` the text of each file; `sizes` the size functions that they declare.
    """

    pieces: tuple[Piece, ...]
    rules: tuple[Rule, ...]
    rulesets: tuple[Ruleset, ...]
    logs: tuple[EquationLog, ...] = ()
    by_name: Mapping[str, Rule] = field(default_factory=dict)
    split: bool = False
    scheme: Scheme = field(default_factory=Scheme)
    sources: Mapping[str, str] = field(default_factory=dict)
    sizes: tuple[SizeDecl, ...] = ()

    def rule(self, name: str) -> Rule:
        """The rule that a name in a report or log means; `name<=` is a birewrite's backward half."""
        return self.by_name[reason.Rule.of(name).name]

    def names(self, prefix: str = "") -> tuple[str, ...]:
        """Names of the loaded rulesets that hold rules, those that begin with `prefix`."""
        return tuple(r.name for r in self.rulesets if r.name.startswith(prefix) and not is_prelude(r.name))

    def phases(self, name: str) -> tuple[str, ...]:
        """The engine's rulesets that stand for a ruleset: itself, or one a rule where each rule runs apart."""
        if not self.split or is_prelude(name):
            return (name,)
        outside = {each for ruleset in self.rulesets for each in ruleset.only_at_once}
        return tuple(rule.name for rule in self.rules if rule.ruleset == name and rule.name not in outside)

    def needed(self, name: str) -> frozenset[str]:
        """All rulesets that a ruleset needs, directly or not."""
        needs = {ruleset.name: ruleset.needs for ruleset in self.rulesets}
        found: set[str] = set()
        waiting = list(needs.get(name, ()))
        while waiting:
            each = waiting.pop()
            if each not in found:
                found.add(each)
                waiting += needs.get(each, ())
        return frozenset(found)


def shipped_rulesets() -> tuple[str, ...]:
    """Names of all rulesets of the package, preludes and contracts apart: path = name."""
    root = Path(str(files("egshape"))) / "rulesets"
    names = (".".join(path.relative_to(root).with_suffix("").parts) for path in root.rglob("*.egg"))
    return tuple(sorted(name for name in names if not is_prelude(name) and not name.startswith(CONTRACTS)))


def find_rulesets(item: str) -> list[str]:
    """What a name or path given by a user stands for: paths of files, and names of shipped rulesets.

    A name is a shipped ruleset (`tensor.slice`), a folder of them (`tensor`), one of an installed package
    (`acme.fuse`), all of a package (`acme`), or rules written in Python (`module:function`, `file.py`). Raises
    EgshapeError for an unknown name, with the nearest known one."""
    if item.endswith(".egg"):
        return [item]
    if python_names.is_python(item):
        return python_names.find(item)
    known = shipped_rulesets()
    if item in known or is_prelude(item):
        return [item]
    found = plugins.find(item)
    if found:
        return [str(path) for path in found.values()]
    folder = [name for name in known if name.startswith(f"{item}.")]
    if folder:
        return folder
    raise _unknown(item, "")


def load_rulesets(
    names_or_paths: Iterable[str | Path],
    provenance: bool = True,
    preludes: Mapping[str, str] | None = None,
    *,
    split: bool = False,
) -> LoadedRules:
    """Load rulesets by name (`size.floordiv`) or path (`my.egg`), with all that they need.

    provenance: log unions of named sorts (see rulelang/provenance.py). preludes: generated preludes by name
    (`prelude.tensor`), as text without a header; a ruleset file asks for them in its `needs:`. split: each rule is a
    ruleset of its own for the engine, named after it, so that it can be run and measured alone.
    Raises EgshapeError (code "rules") with file:line and the way out.
    """
    loader = Loader(preludes or {}, provenance, split)
    for item in names_or_paths:
        loader.load(str(item), "")
    return loader.loaded()


class Loader:
    """The state of one `load_rulesets`."""

    def __init__(
        self, preludes: Mapping[str, str], provenance: bool, split: bool = False, omit: frozenset[str] = frozenset()
    ) -> None:
        self.preludes = preludes
        self.omit = omit
        self.provenance = provenance
        self.split = split
        self.scheme = Scheme()
        self.open: list[str] = []
        self.done: dict[str, Ruleset] = {}
        self.names: dict[str, str] = {}
        """The name of the ruleset that each item asked for turned out to be."""
        self.pieces: list[Piece] = []
        self.rules: dict[str, Rule] = {}
        self.logs: list[EquationLog] = []
        self.sources: dict[str, str] = {}
        self.sizes: list[SizeDecl] = []

    def loaded(self) -> LoadedRules:
        return LoadedRules(
            tuple(self.pieces),
            tuple(self.rules.values()),
            tuple(self.done.values()),
            tuple(self.logs),
            dict(self.rules),
            self.split,
            self.scheme,
            dict(self.sources),
            tuple(self.sizes),
        )

    def load(self, item: str, asked_by: str, folder: Path | None = None) -> None:
        """Load one ruleset, unless that was done, after what it needs. `folder` is that of the file that asks."""
        if item in self.preludes:
            self._generated(item)
            return
        found, folder = opened(item, asked_by, folder)
        for problem in (*found.problems, *unknown_listed(found, found.named)):
            raise problem.error()
        header = found.header
        assert header is not None
        if header.name != item and not (item.endswith(".egg") or python_names.is_python(item)):
            raise _error(f"the header calls this ruleset {header.name}", f"{found.file}:1", f"the path makes it {item}")
        if header.name in self.done:
            if self.done[header.name].file != header.file:
                raise _error(f"ruleset {header.name} is loaded twice", f"{found.file}:1", "give it another name")
            return
        self._needed(header, folder)
        self.done[header.name] = header
        self.sources[found.file] = found.text
        if is_prelude(header.name):
            self._prelude(found.declarations)
        else:
            self._ruleset(found, header)

    def _needed(self, header: Ruleset, folder: Path) -> None:
        if header.name in self.open:
            chain = " -> ".join([*self.open[self.open.index(header.name) :], header.name])
            raise _error(f"rulesets need each other: {chain}", f"{header.file}:1", "move what both need to a third")
        self.open.append(header.name)
        for needed in header.needs:
            self.load(needed, f"{header.file}:1", folder)
        self.open.pop()

    def _generated(self, name: str) -> None:
        if name in self.done:
            return
        self.done[name] = Ruleset(name, "generated declarations", (), "", "", f"<{name}>")
        self._prelude(_generated(name, self.preludes[name]))

    def _prelude(self, commands: Sequence[List]) -> None:
        for command in commands:
            self.scheme.declare(command)
            self.pieces.append(Piece(str(command), _where(command.at)))

    def declare_sizes(self, found: RuleFile) -> None:
        """Take note of the size functions of a file. Raises EgshapeError for a name that something else has."""
        for decl in found.sizes:
            if decl.name in self.scheme.signatures:
                raise _error(f"something else is called {decl.name} too: an op, function or relation",
                             _where(decl.at), "give the size function another name")  # fmt: skip
            self.sizes.append(decl)
            self._prelude(tuple(decl.commands()))

    def _ruleset(self, found: RuleFile, header: Ruleset) -> None:
        self.declare_sizes(found)
        if not self.split:
            self.pieces.append(Piece(f"(ruleset {header.name})", f"{header.file}:1"))
        for rule in found.rules:
            if rule.name in self.omit:
                continue
            if rule.name in self.rules:
                other = self.rules[rule.name].where
                raise _error(f"a rule named {rule.name} exists already ({other})", rule.where, "rename it")
            self.rules[rule.name] = rule
            if rule.name in header.only_at_once:
                continue
            if self.split:
                self.pieces.append(Piece(f"(ruleset {rule.name})", rule.where))
            for plain in desugar(rule.command, rule.name, rule.name if self.split else rule.ruleset):
                self._add(plain, rule)

    def _add(self, plain: PlainRule, rule: Rule) -> None:
        text, logs = self.logged(plain)
        self.logs.extend(logs)
        self.pieces.extend(Piece(line, rule.where) for line in declarations(logs))
        self.pieces.append(Piece(str(text), rule.where))

    def logged(self, plain: PlainRule) -> tuple[PlainRule, tuple[EquationLog, ...]]:
        """The rule as the engine gets it."""
        return with_provenance(plain, self.scheme) if self.provenance else (plain, ())


@lru_cache(maxsize=4)
def _generated(name: str, text: str) -> tuple[List, ...]:
    """The commands of a generated prelude, which every load of rules asks for."""
    return tuple(item for item in read(text, f"<{name}>") if isinstance(item, List))


def opened(item: str, asked_by: str, folder: Path | None = None) -> tuple[RuleFile, Path]:
    """What a ruleset's file holds, whatever is wrong with it, and the folder where the files that it needs are.

    Raises EgshapeError only if there is no such file or it cannot be read."""
    if python_names.is_python(item):
        rule = python_names.declared(item)
        return rule.file, rule.folder
    path, file = locate(item, asked_by, folder)
    return read_rule_file(_text(path, file), file), path.parent


def locate(item: str, asked_by: str, folder: Path | None = None) -> tuple[Path, str]:
    """The path of a ruleset and the file name that errors give; a relative path that a file needs starts there."""
    if item.endswith(".egg"):
        path = Path(item)
        if folder is not None and not path.is_absolute():
            path = folder / path
            return path, str(path)
        return path, item
    relative = Path("rulesets", *item.split(".")).with_suffix(".egg")
    path = Path(str(files("egshape"))) / relative
    if path.is_file():
        return path, str(relative)
    found = plugins.find(item)
    if item in found:
        return found[item], str(found[item])
    raise _unknown(item, asked_by)


def parts(item: str) -> tuple[Path, ...]:
    """The files that a ruleset is in, its own first, then those that it needs; none for what is shipped, or found by
    the name of a module. Raises EgshapeError for one that cannot be read."""
    found: dict[Path, None] = {}
    waiting: list[tuple[str, Path | None]] = [(item, None)]
    while waiting:
        each, asked = waiting.pop()
        if each.endswith(".egg"):
            path = locate(each, "", asked)[0]
        elif asked is None and ".py:" in each:
            path = Path(each.rpartition(":")[0])
            each = find_rulesets(each)[0]
        elif asked is not None and python_names.is_python(each):  # a size function of that file, or of one beside it
            path = asked / Path(python_names.declared(each).file.file).name
        else:
            continue
        if path not in found:
            found[path] = None
            file, folder = opened(each, "", asked)
            waiting += [(needed, folder) for needed in (file.header.needs if file.header else ())]
    return tuple(found)


def _unknown(item: str, asked_by: str) -> EgshapeError:
    known = (*shipped_rulesets(), "prelude.shape", "prelude.tensor", *(point.name for point in plugins.packages()))
    near = nearest(item, known)
    hint = (f"did you mean {near}? " if near else "") + "shipped rulesets: " + ", ".join(shipped_rulesets())
    return _error(f"there is no ruleset named {item}", asked_by, hint)


_UNSAVED: ContextVar[Mapping[Path, str]] = ContextVar("unsaved", default={})  # noqa: B039  never changed in place


@contextmanager
def unsaved(texts: Mapping[Path, str]) -> Iterator[None]:
    """Rule files have these texts inside, whatever is stored: what an editor holds. Paths are absolute."""
    token = _UNSAVED.set(texts)
    try:
        yield
    finally:
        _UNSAVED.reset(token)


def _text(path: Path, file: str) -> str:
    held = _UNSAVED.get()
    if held and path.absolute() in held:
        return held[path.absolute()]
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is no UTF-8 text"
        raise _error(f"the ruleset cannot be read: {reason}", file, "give the path of a .egg file") from error


def _where(at: Position) -> str:
    return f"{at.file}:{at.line}"


def _error(message: str, where: str, hint: str) -> EgshapeError:
    return EgshapeError(message, where=where, hint=hint, code="rules")
