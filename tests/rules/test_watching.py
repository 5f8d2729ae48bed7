"""rules watch, rules test --jobs, and what rules prelude says of a word that is not there."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from egshape.cli import main
from egshape.commands import watch
from egshape.commands.work import Done
from egshape.rulebook.watching import Look, Watch, changes
from tests import interruptible

Captured = pytest.CaptureFixture[str]
ROOT = Path(__file__).resolve().parents[2]
SIZES = ROOT / "examples" / "sizes"
RULES = """; ruleset: mine
; about:   a double negation
; needs:   prelude.shape, prelude.tensor, tensor.types
; law:     keeps dtype, shape and every bit of the value
; ends:    fewer ops

; tanh(-x) = -tanh(x)
(rewrite (Unary "tanh" (Unary "negate" x)) (Unary "negate" (Unary "tanh" x))
  :ruleset mine :name "mine/odd")
;; example   tanh(negate(x: [a]))  =>  negate(tanh(x))
"""
MODEL = """func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %0 = stablehlo.negate %x : tensor<?x4xf32>
  %1 = stablehlo.tanh %0 : tensor<?x4xf32>
  %2 = stablehlo.negate %1 : tensor<?x4xf32>
  return %2 : tensor<?x4xf32>
}
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("mine.egg").write_text(RULES)
    Path("m.mlir").write_text(MODEL)
    return tmp_path


def test_one_look(files: Path, capsys: Captured) -> None:
    pytest.importorskip("jax")
    assert main(["rules", "watch", "mine.egg", "--model", "m.mlir", "--once", "--json"]) == 0
    found = Look.model_validate_json(capsys.readouterr().out)
    assert found.tested is not None and found.tested.good == 1
    (effect,) = found.effects
    assert (effect.ops, effect.without, effect.with_rules) == (3, 3, 1)
    assert [(each.rule, each.matches) for each in effect.fired] == [("mine/odd", 1)]
    assert main(["rules", "watch", "mine.egg", "--model", "m.mlir", "--once"]) == 0
    assert "m.mlir: 3 ops -> 1, 3 without these rules" in capsys.readouterr().out


def test_mistakes_end_a_look(files: Path, capsys: Captured) -> None:
    Path("mine.egg").write_text(RULES.replace('"tanh" (', '"tahn" ('))
    assert main(["rules", "watch", "mine.egg", "--once"]) == 2
    out = capsys.readouterr().out
    assert "did you mean tan?" in out and "not tested" in out
    assert main(["rules", "watch", "none.egg", "--once"]) == 2
    assert capsys.readouterr().err == "egshape: none.egg: cannot be read: there is no such file\n"


def test_a_wrong_rule_makes_it_1(files: Path, capsys: Captured) -> None:
    wrong = RULES.replace('(Unary "negate" (Unary "tanh" x))\n', "x\n").replace("negate(tanh(x))", "x")
    Path("mine.egg").write_text(wrong)
    assert main(["rules", "watch", "mine.egg", "--once"]) == 1
    assert "0 good, 1 bad" in capsys.readouterr().out


def look(result: str, ops: int, matches: int) -> Look:
    row = {"rule": "a/b", "where": "a:1", "road": "sizes", "status": result, "good": result != "failed", "points": 1,
           "graphs": 0, "counterexample": "", "examples": []}  # fmt: skip
    fired = [{"rule": "a/b", "matches": matches, "unions": 0}] if matches else []
    effect = {"model": "m", "ops": 9, "without": 9, "with_rules": ops, "status": "saturated", "fired": fired}
    tested = {"proofs": True, "good": 1, "bad": 0, "rules": [row]}
    return Look.model_validate(
        {"files": ["a.egg"], "checked": {"rules": 1, "problems": []}, "tested": tested, "effects": [effect]}
    )


def test_what_has_changed_is_said() -> None:
    before, now = look("proved", 7, 3), look("failed", 9, 0)
    assert list(changes(None, now)) == []
    assert list(changes(before, before)) == []
    assert list(changes(before, now)) == [
        "a/b: proved -> failed",
        "m: 7 ops -> 9 ops",
        "m: a/b matched 3 -> 0 times",
    ]
    gone = now.model_copy(update={"tested": None})
    assert next(iter(changes(before, gone))) == "a/b: gone"
    assert list(changes(gone, now)) == ["a/b: new, failed"]


def test_it_looks_again_at_a_save_and_ends_at_an_interrupt(files: Path) -> None:
    watched = subprocess.Popen(
        interruptible.command("rules", "watch", "mine.egg", "--json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=files,
    )
    assert watched.stdout is not None
    first = json.loads(watched.stdout.readline())
    assert first["tested"]["bad"] == 0
    assert watched.stderr is not None and "waiting" in watched.stderr.readline()
    time.sleep(0.1)
    Path("mine.egg").write_text(RULES.replace("; tanh(-x) = -tanh(x)\n", ""))
    second = json.loads(watched.stdout.readline())
    assert [each["code"] for each in second["checked"]["problems"]] == ["no-comment"]
    assert second["tested"] is None
    assert "waiting" in watched.stderr.readline()
    watched.send_signal(signal.SIGINT)
    out, err = watched.communicate(timeout=30)
    assert (watched.returncode, out, err) == (0, "", "")


def test_a_rule_is_tried_as_it_was_saved_last(files: Path, capsys: Captured) -> None:
    """All in one process, as `rules watch` does it."""
    assert main(["rules", "test", "mine.egg"]) == 0
    Path("mine.egg").write_text(RULES.replace('(Unary "negate" (Unary "tanh" x))\n', "x\n").replace("tanh(x))", "x)"))
    assert main(["rules", "test", "mine.egg"]) == 1
    Path("mine.egg").write_text(RULES)
    assert main(["rules", "test", "mine.egg"]) == 0


# -- test --jobs ----


def test_jobs_give_what_one_process_gives(capsys: Captured) -> None:
    items = [str(SIZES / name) for name in ("isqrt.egg", "round_up.egg")]
    assert main(["rules", "test", *items, "--json"]) == 0
    one = capsys.readouterr().out
    assert main(["rules", "test", *items, "--json", "--jobs", "2"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(one)


def test_jobs_keep_the_order_of_one_process_and_its_exit_code(
    files: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    from egshape.commands import testing
    from egshape.commands.work import work

    def backwards(tasks, jobs, cluster):  # type: ignore[no-untyped-def]
        return ((number, work(tasks[number])) for number in reversed(range(len(tasks))))

    monkeypatch.setattr(testing, "spread", backwards)
    Path("wrong.egg").write_text(
        RULES.replace("mine", "wrong").replace('(Unary "negate" (Unary "tanh" x))\n', "x\n").replace("tanh(x))", "x)")
    )
    items = ["wrong.egg", str(SIZES / "round_up.egg")]
    assert main(["rules", "test", *items, "--jobs", "2"]) == 1
    apart = capsys.readouterr()
    assert main(["rules", "test", *items]) == 1
    together = capsys.readouterr()
    assert apart.out == together.out
    assert apart.out.splitlines()[-1] == "2 good, 1 bad"


def test_jobs_refuse_what_one_process_refuses(files: Path, capsys: Captured) -> None:
    Path("mine.egg").write_text(RULES.replace('"tanh" (', '"tahn" ('))
    said = []
    for jobs in ([], ["--jobs", "2"]):
        assert main(["rules", "test", "mine.egg", str(SIZES / "isqrt.egg"), *jobs]) == 2
        said.append(capsys.readouterr())
    assert said[0] == said[1]


def test_a_process_that_dies_is_said(files: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    from egshape.commands import testing

    monkeypatch.setattr(testing, "spread", lambda tasks, *how: iter([(0, Done(2, err="egshape: it was ended\n"))]))
    assert main(["rules", "test", "mine.egg", "--jobs", "3"]) == 2
    assert capsys.readouterr().err == "egshape: mine.egg: it was ended\n"


PYTHON = """import egshape
from egshape.words import negate


@egshape.rule(example="negate(negate(x: [a]))  =>  x", needs="../sizes/isqrt.egg")
def twice(x):
    '''-(-x) = x'''
    return negate(negate(x)), x
"""


@pytest.fixture
def folders(files: Path) -> list[str]:
    """Rules that lie elsewhere: a wrong file, one in Python that needs a file beside its folder, a shipped one."""
    Path("sizes").mkdir()
    Path("rules of mine").mkdir()
    for name in ("isqrt", "round_up"):
        Path(f"sizes/{name}.egg").write_text((SIZES / f"{name}.egg").read_text())
    Path("rules of mine/wrong.egg").write_text(
        RULES.replace("mine", "wrong").replace('(Unary "negate" (Unary "tanh" x))\n', "x\n").replace("tanh(x))", "x)")
    )
    Path("rules of mine/more.py").write_text(PYTHON)
    return ["rules of mine/wrong.egg", "./rules of mine/more.py", str(Path("sizes/round_up.egg").absolute())]


def _reports(items: list[str], how: list[str], capsys: Captured) -> list[tuple[int, str]]:
    """Exit codes and what is printed, of one process and of another way."""
    found = []
    for more in ([], how):
        code = main(["rules", "test", *items, *more])
        found.append((code, capsys.readouterr().out))
    return found


def test_jobs_find_rules_in_python_of_another_folder(folders: list[str], capsys: Captured) -> None:
    one, apart = _reports(folders, ["--jobs", "2"], capsys)
    assert one == apart
    assert one[0] == 1 and "rules of mine/more.py:" in one[1]


def test_a_task_on_a_worker_has_the_files_of_its_rules(folders: list[str], capsys: Captured, tmp_path: Path) -> None:
    """Where no folder is shared: all that it says is in the paths of this machine."""
    from egshape.commands.cluster import _sent
    from egshape.commands.testing import tasks
    from egshape.commands.work import work

    given = [_sent(task) for task in tasks(folders, no_proofs=False, seed=0, ops=None)]
    assert [sorted(task.sent or ()) for task in given] == [
        ["wrong.egg"], ["../sizes/isqrt.egg", "more.py"], ["round_up.egg"]
    ]  # fmt: skip
    before = [work(task) for task in tasks(folders, no_proofs=False, seed=0, ops=None)]
    for name in ("rules of mine", "sizes"):
        (tmp_path / name).rename(tmp_path / f"not {name}")
    after = [work(task) for task in given]
    assert [(each.code, each.out) for each in before] == [(each.code, each.out) for each in after]
    assert all(each.out.startswith("{") for each in after)


@pytest.mark.long
@pytest.mark.parametrize("dies", [False, True])
def test_a_cluster_gives_what_one_process_gives(folders: list[str], dies: bool, capsys: Captured) -> None:
    """Also where the first worker is killed at its first ruleset."""
    pytest.importorskip("distributed", reason="needs the extra cluster")
    Path("ops.py").write_text(
        "import os, pathlib, multiprocessing\n"
        f"marker = pathlib.Path({str(Path('marker').absolute())!r})\n"
        "if multiprocessing.parent_process() and not marker.exists():\n"
        "    marker.touch()\n"
        "    os._exit(9)\n"
    )
    one, cluster = _reports(folders, ["--cluster", "local", "--jobs", "2", *(["--ops", "ops.py"] * dies)], capsys)
    assert one == cluster
    assert Path("marker").exists() == dies


# -- prelude ----


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("tranpose", "did you mean transpose"),
        ("mod", "the comments of FloorDiv, Relu speak of it"),
        ("qqqqqq", "without a word all are listed"),
    ],
)
def test_a_word_that_is_not_there(word: str, said: str, capsys: Captured) -> None:
    assert main(["rules", "prelude", word]) == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err.startswith(f"egshape: the prelude has no '{word}' (") and said in found.err
    assert found.err.count("\n") == 1


def test_a_fault_does_not_end_the_watch(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The next save is looked at as any other one."""
    stamps = iter([1, 2, 2, 3])

    class Faulty(Watch):
        looks = 0

        def stamp(self) -> tuple[tuple[str, int, int], ...]:
            found = next(stamps, None)
            if found is None:
                raise KeyboardInterrupt
            return (("mine.egg", found, 0),)

        def look(self, progress: Callable[[str], None] = lambda name: None) -> tuple[Look, str]:
            self.looks += 1
            raise RuntimeError("of the engine")

    watched = Faulty(["mine.egg"], {})
    monkeypatch.setattr(watch, "EVERY", 0)
    with pytest.raises(KeyboardInterrupt):
        watch._go_on(watched, False)
    assert watched.looks == 2
    assert capsys.readouterr().err.count("a fault of ours, RuntimeError: of the engine") == 2
