"""Graphviz for the browser, which a report carries so that it can lay out graphs by itself.

It is the WebAssembly build of the npm package ``@hpcc-js/wasm-graphviz``. It is not part of this repository:
``python -m egshape.viz.report.renderer`` fetches it with npm, checks what came against the sum below, and keeps it in
the user's cache folder; ``--into FOLDER`` puts it elsewhere, such as into this package before a wheel is built.
Without it a report holds the pictures that the program ``dot`` makes, if there is one."""

from __future__ import annotations

import argparse
import base64
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from egshape.atomic import write_atomic
from egshape.errors import EgshapeError, MissingDependency

PACKAGE = "@hpcc-js/wasm-graphviz"
VERSION = "1.29.2"
_SHA512 = "AkArBAZERT5OxH52/+kvCHB07cZ6ZNd9GnOvjw+S880bR88D6i27XfK6xj4dBhUDxNA2QPPMdgEcky3x4TJ3KA=="
_MEMBER = "package/dist/index.js"
_EXPORTS = re.compile(r"export\s*\{([^}]*)\}\s*;?\s*(//# sourceMappingURL=.*)?\s*$")

NAME = f"graphviz-{VERSION}.js"
HINT = "`python -m egshape.viz.report.renderer` fetches it with npm, once"


def cache_folder() -> Path:
    """Where the renderer is kept for this user."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "egshape"


def places() -> tuple[Path, ...]:
    """Where the renderer is looked for: in this package, then in the user's cache."""
    return Path(__file__).parent / NAME, cache_folder() / NAME


def source() -> str | None:
    """The renderer as a classic script that sets ``globalThis.EgshapeGraphviz``; None if it was not fetched."""
    for path in places():
        if path.is_file():
            return path.read_text(encoding="utf-8")
    return None


def fetch(into: Path | None = None) -> Path:
    """Fetch the renderer with npm (its own cache first) and keep it; returns the file.

    Raises MissingDependency without npm, EgshapeError if it cannot be had or is not what was expected."""
    npm = shutil.which("npm")
    if npm is None:
        raise MissingDependency("fetching the renderer needs npm", hint="install Node.js, or Graphviz instead")
    with tempfile.TemporaryDirectory() as folder:
        command = [npm, "pack", f"{PACKAGE}@{VERSION}", "--silent", "--prefer-offline"]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
        except subprocess.TimeoutExpired:
            raise EgshapeError(f"npm did not deliver {PACKAGE} in 300 s", code="fetch") from None
        found = sorted(Path(folder).glob("*.tgz"))
        if done.returncode or not found:
            said = (done.stderr.strip().splitlines() or ["no file"])[-1]
            raise EgshapeError(
                f"npm cannot fetch {PACKAGE} {VERSION}: {said}",
                code="fetch",
                hint="try again with a network, or install Graphviz instead",
            )
        archive = found[0].read_bytes()
    target = (into or cache_folder()) / NAME
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(target, script(unpacked(archive)))
    return target


def unpacked(archive: bytes) -> str:
    """The script inside of the npm archive. Raises EgshapeError if the archive is not the one that was expected."""
    digest = base64.b64encode(hashlib.sha512(archive).digest()).decode()
    if digest != _SHA512:
        raise EgshapeError(
            f"what npm delivered as {PACKAGE} {VERSION} has another checksum", code="fetch", hint="it was not kept"
        )
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        member = files.extractfile(_MEMBER)
        assert member is not None, "the sum vouches for the content"
        return member.read().decode()


def script(module: str) -> str:
    """The module as a classic script: a worker made from text can load that. Raises EgshapeError for another form."""
    exports = _EXPORTS.search(module)
    name = re.search(r"(\w+) as Graphviz\b", exports.group(1)) if exports else None
    if exports is None or name is None:
        raise EgshapeError(f"{PACKAGE} {VERSION} does not export Graphviz", code="fetch")
    body = module[: exports.start()]
    if re.search(r"<!--|<script|</script", body, re.IGNORECASE):
        raise EgshapeError(f"{PACKAGE} {VERSION} cannot stand inside of a page: it holds markup", code="fetch")
    notice = f"Graphviz (EPL-2.0) as WebAssembly: {PACKAGE} {VERSION} (Apache-2.0)"
    return f"/* {notice} */\n(() => {{\n{body}\nglobalThis.EgshapeGraphviz = {name.group(1)};\n}})();\n"


def main() -> int:
    """Fetch the renderer from the command line."""
    parser = argparse.ArgumentParser(prog="python -m egshape.viz.report.renderer", description=__doc__)
    parser.add_argument("--into", type=Path, help="folder to put it into instead of the user's cache")
    parser.add_argument("--if-missing", action="store_true", help="do nothing where it is already")
    options = parser.parse_args()
    if options.if_missing and any(path.is_file() for path in places()):
        return 0
    try:
        print(fetch(options.into))
    except EgshapeError as error:
        print(f"egshape: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
