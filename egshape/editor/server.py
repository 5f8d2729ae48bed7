"""The language server for rule files: the protocol (LSP 3.17, by pygls) over ``document``, ``answers`` and ``trials``.

Every answer is computed from the text as it is at that moment. What is wrong with a large text is told in parts,
between which other questions are answered; what is found out of a saved file takes longer, in processes of its own."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path
from pygls.workspace import PositionCodec, ServerTextPosition, ServerTextRange, TextDocument

from egshape import __version__
from egshape.editor import answers
from egshape.editor.chunks import Chunk, Memory, symbol
from egshape.editor.document import Document
from egshape.editor.trials import Trials
from egshape.editor.words import Place, shipped
from egshape.errors import EgshapeError
from egshape.rulebook.models import Problem
from egshape.rulelang.diagnostic import ERROR, Diagnostic
from egshape.rulelang.rulefile import Rule
from egshape.rulelang.sexpr import Position

SETTLED = 0.01
"""Seconds without a further change after which a text is checked."""
SOON, OFTEN = 0.04, 0.3
"""Seconds of checking after which what was found is told for the first time, and again, until all is checked."""
BEHIND = 1 << 30
"""A column behind the end of every line."""
STILL = 1.0
"""Seconds after the last change in which all garbage is collected; never while one waits, since of a large file that
takes as long as an answer."""
PART = 0.01
"""Seconds after which a part ends, once what it is at is found out."""
TURN = 0.001
"""Seconds between two parts, in which a question is read: that takes several turns of the loop."""
UNCHECKED = "unchecked"
"""The code of a remark that this is not all yet."""

_KINDS = {
    "keyword": types.CompletionItemKind.Keyword,
    "op": types.CompletionItemKind.Function,
    "function": types.CompletionItemKind.Function,
    "relation": types.CompletionItemKind.Interface,
    "constructor": types.CompletionItemKind.Constructor,
    "size": types.CompletionItemKind.Function,
    "variable": types.CompletionItemKind.Variable,
    "name": types.CompletionItemKind.Module,
}


@dataclass(frozen=True)
class Lines:
    """The lines of a text, and how a client counts in them."""

    lines: Sequence[str]
    codec: PositionCodec

    def range(self, start: tuple[int, int], end: tuple[int, int]) -> types.Range:
        """From one place to another, counted from 1; places that are not there are brought to the nearest."""
        (first, column, plain), (last, behind, too) = self._inside(*start), self._inside(*end)
        if plain and too:  # the units are the same
            return types.Range(types.Position(first, column), types.Position(last, behind))
        at, to = ServerTextPosition(first, column), ServerTextPosition(last, behind)
        return self.codec.range_to_client_units(self.lines, ServerTextRange(at, to))

    def _inside(self, line: int, column: int) -> tuple[int, int, bool]:
        """A place that is there, counted from 0, and whether only plain letters stand in its line."""
        if not self.lines:
            return 0, 0, True
        line = max(0, min(line, len(self.lines)) - 1)
        text = self.lines[line]
        return line, max(0, min(column - 1, len(text.rstrip("\r\n")))), text.isascii()


class Server(LanguageServer):
    """The state of one session: what was found out of saved files, and what is under way."""

    def __init__(self, models: tuple[str, ...] = (), tests: bool = True) -> None:
        """models: on which rules are tried when their file is saved. tests: whether anything is, then."""
        super().__init__("egshape", __version__)
        self.trials = Trials(models)
        self.tests = tests
        self.tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._documents: dict[str, tuple[int | None, str, Document]] = {}
        self._outlines: dict[str, dict[Chunk, types.DocumentSymbol | None]] = {}
        self._lines: tuple[str, int | None, Lines] = ("", None, Lines((), PositionCodec()))

    def document(self, uri: str) -> Document:
        """The file as it is now; its answers are kept until it changes."""
        held = self.workspace.get_text_document(uri)
        last = self._documents.get(uri)
        if last is None or last[:2] != (held.version, held.source):
            path = Path(to_fs_path(uri) or "untitled.egg").absolute()
            memory = last[2].memory if last is not None else Memory()
            last = self._documents[uri] = held.version, held.source, Document(path, held.source, memory)
        return last[2]

    def source(self, uri: str) -> TextDocument:
        """The text, with which places are counted in the client's units."""
        return self.workspace.get_text_document(uri)

    def place(self, uri: str, position: types.Position) -> tuple[int, int]:
        """A place of the client as line and column, counted from 1."""
        found = self.source(uri).position_from_client_units(position)
        return found.line + 1, found.character + 1

    def lines(self, uri: str) -> Lines:
        """The lines of a text, which are made anew only when it changes."""
        source = self.source(uri)
        if self._lines[:2] != (uri, source.version):
            self._lines = uri, source.version, Lines(source.lines, source.position_codec)
        return self._lines[2]

    def range(self, uri: str, start: tuple[int, int], end: tuple[int, int]) -> types.Range:
        """From one place to another as the client counts; places that are not there are brought to the nearest."""
        return self.lines(uri).range(start, end)

    def outline(self, uri: str) -> list[types.DocumentSymbol]:
        """The rules and size functions of a file; what the last answer said of a chunk that is where it was stays."""
        lines, last = self.lines(uri), self._outlines.get(uri, {})
        now = {each: last.get(each) or _outlined(each, lines) for each in self.document(uri).chunks}
        self._outlines[uri] = now
        return [each for each in now.values() if each is not None]

    def start(self, kind: str, uri: str, work: Callable[[], Any]) -> None:
        """Begin some work on a file, in place of what was under way there of this kind."""
        before = self.tasks.pop((kind, uri), None)
        if before is not None:
            before.cancel()
        self.tasks[kind, uri] = asyncio.get_running_loop().create_task(work())

    def stop(self, uri: str) -> None:
        """End all work on a file, and forget it."""
        self._documents.pop(uri, None)
        self._outlines.pop(uri, None)
        for key in [key for key in self.tasks if key[1] == uri]:
            self.tasks.pop(key).cancel()

    def check(self, uri: str, wait: float = 0.0) -> None:
        """Begin to find what is wrong with a file as it is now, in place of an earlier state."""
        self.start("check", uri, lambda: self.publish(uri, wait))

    def check_users(self, uri: str) -> None:
        """Check the open files again that need this one, which was stored."""
        path = self.document(uri).path.resolve()
        for other, (_, _, document) in list(self._documents.items()):
            if path in document.needed:
                self.trials.checked.pop(document.path, None)
                self._documents[other] = None, "", document
                self.check(other)

    async def publish(self, uri: str, wait: float) -> None:
        """Say what is wrong with a file, once it has been still for a while; in parts where that takes long."""
        await asyncio.sleep(wait)
        document, version = self.document(uri), self.source(uri).version

        def say(found: Sequence[types.Diagnostic]) -> None:
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found, version))

        due = time.monotonic() + SOON
        try:
            while document.unchecked:
                until = time.monotonic() + PART
                while document.unchecked and time.monotonic() < until:
                    document.check_some()
                if document.unchecked and time.monotonic() > due:
                    remark = _remark(UNCHECKED, f"{len(document.unchecked)} rules are not checked yet")
                    say([remark, *(self.diagnostic(uri, each) for each in document.found)])
                    due = time.monotonic() + OFTEN
                await asyncio.sleep(TURN)  # the text may have changed meanwhile, which ends this
            say(self.all_wrong(uri, document))
            await asyncio.sleep(STILL)
            gc.collect()
        except Exception as error:  # what was told of an earlier text must not stay
            say([_remark("internal", f"the check ended by a fault of egshape: {type(error).__name__}: {error}")])
            raise

    def all_wrong(self, uri: str, document: Document) -> list[types.Diagnostic]:
        """All that is wrong with a file; where that is nothing, also what was found out when it was saved."""
        if document.problems:
            return [self.diagnostic(uri, each) for each in document.problems]
        more = self.trials.problems(document.path, document.text)
        found = [self.diagnostic(uri, _diagnostic(each, str(document.path))) for each in more]
        if self.trials.verdicts:
            found += [self.failed(uri, rule) for rule in document.own if self.is_failed(rule)]
        return found

    def is_failed(self, rule: Rule) -> bool:
        """Whether a rule as it is written now was tried and does not stand."""
        row = self.trials.row(rule)
        return row is not None and not row.good

    def failed(self, uri: str, rule: Rule) -> types.Diagnostic:
        """That a rule was tried and does not stand, at the rule."""
        return self.diagnostic(uri, Diagnostic("test", f"{rule.name}: {self.trials.told(rule)[0].replace('*', '')}",
                                               rule.command.at, length=1 + len(rule.command.head)))  # fmt: skip

    def diagnostic(self, uri: str, each: Diagnostic) -> types.Diagnostic:
        """A mistake as the protocol says it."""
        line, column = max(each.at.line, 1), max(each.at.column, 1)
        return types.Diagnostic(
            self.range(uri, (line, column), (line, column + max(each.length, 1))),
            each.message + (f"\n{each.hint}" if each.hint else ""),
            types.DiagnosticSeverity.Error if each.severity == ERROR else types.DiagnosticSeverity.Warning,
            code=each.code,
            source="egshape",
        )

    async def try_out(self, uri: str) -> None:
        """Find out all of a saved file, then say what is wrong with it."""
        document = self.document(uri)
        await self.trials.run(document.path, document.text, document.own)
        self.check(uri)


def _outlined(chunk: Chunk, lines: Lines) -> types.DocumentSymbol | None:
    """What an outline shows of a chunk."""
    found = symbol(chunk)
    if found is None:
        return None
    whole = lines.range((found.first, 1), (found.last, BEHIND))
    head = lines.range((found.line, 1), (found.line, 2 + len(found.kind)))
    kind = types.SymbolKind.Function if found.kind == "size" else types.SymbolKind.Event
    return types.DocumentSymbol(found.name, kind, whole, head, detail=found.about)


def _remark(code: str, message: str) -> types.Diagnostic:
    """Something about the whole file that is no mistake of its author, at its start."""
    start = types.Position(0, 0)
    level = types.DiagnosticSeverity.Information
    return types.Diagnostic(types.Range(start, start), message, level, code=code, source="egshape")


def _diagnostic(each: Problem, file: str) -> Diagnostic:
    place = Position(file, each.line, each.column)
    return Diagnostic(each.code, each.message, place, each.hint, each.length, each.severity, each.rule)


def server(models: tuple[str, ...] = (), tests: bool = True) -> Server:
    """A server that is ready to start, with all that it answers."""
    made = Server(models, tests)
    _watch_files(made)
    _answer_places(made)
    _answer_files(made)
    shipped()  # read before the first question
    gc.freeze()  # none of it is ever searched for garbage
    gc.disable()  # nor anything while one waits
    return made


def _watch_files(made: Server) -> None:
    @made.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(ls: Server, params: types.DidOpenTextDocumentParams) -> None:
        ls.check(params.text_document.uri)

    @made.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(ls: Server, params: types.DidChangeTextDocumentParams) -> None:
        ls.check(params.text_document.uri, SETTLED)

    @made.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(ls: Server, params: types.DidSaveTextDocumentParams) -> None:
        uri = params.text_document.uri
        ls.check_users(uri)
        if ls.tests and not ls.document(uri).is_contracts:
            ls.start("try", uri, lambda: ls.try_out(uri))

    @made.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(ls: Server, params: types.DidCloseTextDocumentParams) -> None:
        ls.stop(params.text_document.uri)
        ls.text_document_publish_diagnostics(types.PublishDiagnosticsParams(params.text_document.uri, []))

    @made.feature(types.SHUTDOWN)
    def ended(ls: Server, params: None) -> None:
        for _, uri in list(ls.tasks):
            ls.stop(uri)


def _answer_places(made: Server) -> None:
    @made.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(ls: Server, params: types.HoverParams) -> types.Hover | None:
        uri = params.text_document.uri
        found = answers.hover(ls.document(uri), *ls.place(uri, params.position), ls.trials.told)
        if found is None:
            return None
        text, word = found
        at = word.at.line, word.at.column
        shown = ls.range(uri, at, (at[0], at[1] + len(word.text)))
        return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text), shown)

    @made.feature(types.TEXT_DOCUMENT_DEFINITION)
    def definition(ls: Server, params: types.DefinitionParams) -> types.Location | None:
        document = ls.document(params.text_document.uri)
        word = document.word(*ls.place(params.text_document.uri, params.position))
        found = document.definition(word) if word is not None else None
        return _location(found) if found is not None else None

    @made.feature(types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=["(", '"', ":", "."]))
    def completion(ls: Server, params: types.CompletionParams) -> types.CompletionList:
        uri = params.text_document.uri
        place = ls.place(uri, params.position)
        begun = ls.document(uri).begun(*place)
        written = ls.range(uri, (begun.at.line, begun.at.column), place)
        return types.CompletionList(
            False,
            [
                types.CompletionItem(
                    each.word,
                    kind=_KINDS[each.kind],
                    detail=each.detail or None,
                    documentation=types.MarkupContent(types.MarkupKind.Markdown, each.about) if each.about else None,
                    text_edit=types.TextEdit(written, each.word),
                )
                for each in answers.completion(ls.document(uri), *place)
            ],
        )


def _answer_files(made: Server) -> None:
    @made.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def symbols(ls: Server, params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
        return ls.outline(params.text_document.uri)

    @made.feature(types.TEXT_DOCUMENT_FORMATTING)
    def formatting(ls: Server, params: types.DocumentFormattingParams) -> list[types.TextEdit]:
        uri = params.text_document.uri
        text = ls.document(uri).text
        try:
            new = ls.document(uri).laid_out
        except EgshapeError:  # what cannot be read is left as it is; a diagnostic says why
            return []
        if new == text:
            return []
        last = len(text.split("\n"))
        return [types.TextEdit(ls.range(uri, (1, 1), (last, len(text.split("\n")[-1]) + 1)), new)]


def _location(found: Place) -> types.Location:
    """A place in a file, which the client may not have open; its columns are those of plain letters."""
    start = types.Position(found.line - 1, found.column - 1)
    end = types.Position(found.line - 1, found.column - 1 + found.length)
    return types.Location(from_fs_path(str(found.path)) or "", types.Range(start, end))
