"""Find the programs of the JAX corpus: for each public function the first templates with which it exports and runs.

python -m benchmarks.robustness.jax_found             writes jax_programs.txt"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import sys
import warnings
from collections.abc import Iterator
from types import ModuleType

from benchmarks.robustness import jax_exports
from benchmarks.robustness.jax_corpus import LIST
from benchmarks.robustness.jax_templates import GENERIC, SPECIAL
from egshape.adapters.xla import run_stablehlo
from egshape.atomic import write_atomic

MODULES = {
    "jax.numpy": "jnp",
    "jax.numpy.fft": "jnp.fft",
    "jax.numpy.linalg": "jnp.linalg",
    "jax.lax": "lax",
    "jax.lax.linalg": "lax.linalg",
    "jax.nn": "nn",
    "jax.nn.initializers": "nn.initializers",
    "jax.random": "random",
}
EACH = 2
"""Programs of a function that generic templates give."""

GRADIENTS = 130
FROM_0 = 110


def functions() -> Iterator[str]:
    """The public functions, by the names that programs call them; one that has two names is given once."""
    import jax.scipy

    modules = dict(MODULES)
    for found in pkgutil.walk_packages(jax.scipy.__path__, "jax.scipy."):
        modules[found.name] = found.name.replace("jax.scipy", "jsp")
    seen = set()
    for module, short in modules.items():
        held = vars(importlib.import_module(module))
        for name in sorted(held):
            each = held[name]
            if name.startswith("_") or not callable(each) or inspect.isclass(each) or isinstance(each, ModuleType):
                continue
            if id(each) not in seen:
                seen.add(id(each))
                yield f"{short}.{name}"


def works(program: str) -> str:
    """The program as text if it exports and XLA runs it, else "".

    What has no symbolic size in it is no program for this corpus."""
    try:
        exported = jax_exports.export(program)
        text = str(exported.mlir_module())
        if "?" not in text:
            return ""
        run_stablehlo(text, jax_exports.arrays_at(program, exported.module_kept_var_idx, 2))
    except Exception:  # a template that does not fit fails in as many ways as there are functions
        return ""
    return text


def programs_of(function: str) -> list[str]:
    """What works of a function: all of its own programs, or the first two different ones of the generic templates."""
    own = SPECIAL.get(function)
    candidates = own if own is not None else [template.replace("F", function, 1) for template in GENERIC]
    out: list[str] = []
    texts = set()
    for program in candidates:
        text = works(program)
        if text and text not in texts:
            texts.add(text)
            out.append(program)
        if own is None and len(out) == EACH:
            break
    return out


def _spread(programs: list[str], prefix: str, count: int) -> list[str]:
    """So many programs with a prefix that work, evenly from all of them."""
    step = max(len(programs) // (2 * count), 1)
    out: list[str] = []
    for first in range(step):
        for program in programs[first::step]:
            if len(out) == count:
                return out
            if works(prefix + program):
                out.append(prefix + program)
    return out


def main() -> None:
    """Write the list, grown function by function, so that an end in between loses nothing."""
    warnings.simplefilter("ignore")
    kept = LIST.with_suffix(".part")
    done: dict[str, list[str]] = json.loads(kept.read_text()) if kept.is_file() else {}
    names = list(functions())
    for number, function in enumerate(names):
        if function in done:
            continue
        done[function] = []
        write_atomic(kept, json.dumps(done))  # one that ends the process is left out next time
        done[function] = programs_of(function)
        write_atomic(kept, json.dumps(done))
        print(f"{number + 1} of {len(names)}: {function}: {len(done[function])}", file=sys.stderr, flush=True)
    plain = [program for name in names for program in done[name]]
    lines = [*plain, *_spread(plain, "grad ", GRADIENTS), *_spread(plain, "from0 ", FROM_0)]
    used = sum(bool(done[name]) for name in names)
    head = f"# {len(lines)} programs of {used} functions; found by `python -m benchmarks.robustness.jax_found`\n"
    write_atomic(LIST, head + "\n".join(lines) + "\n")
    kept.unlink()
    print(head, end="")


if __name__ == "__main__":
    main()
