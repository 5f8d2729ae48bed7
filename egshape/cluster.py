"""Many models over the workers of a Dask cluster, for pipelines of your own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from egshape.commands.cluster import over
from egshape.commands.work import Task


@dataclass(frozen=True)
class Outcome:
    """What became of a model: the exit code of ``egshape optimize`` (0: done), the optimized file, its report as JSON,
    and what was printed of notes and errors. ``data`` and ``report`` are empty where it failed."""

    model: str
    code: int
    data: bytes
    report: str
    said: str


def optimize(paths: Sequence[str | Path], client: Any, **options: Any) -> list[Outcome]:
    """Optimize model files over a cluster, each in its own format.

    Args:
        paths: the models; their content is sent to the workers, which need egshape and no shared folder.
        client: a ``distributed.Client``.
        options: of ``egshape optimize``, by their long names with underscores, such as ``assume=["n % 8 == 0"]``.

    Returns:
        The outcomes in the order of ``paths``. One that fails does not stop the others.

    Raises:
        EgshapeError: the cluster has no worker.

    Examples:
        >>> import distributed
        >>> import egshape.cluster
        >>> from egshape.frontends.builder import Network
        >>> net = Network()
        >>> _ = egshape.save(net.graph(y=net.relu(net.input("x", ["n", 4]))), "one.egs")
        >>> with distributed.Client(processes=False, dashboard_address=None) as client:  # threads of this process
        ...     found = egshape.cluster.optimize(["one.egs", "none.egs"], client)
        >>> [each.code for each in found]
        [0, 2]
    """
    with TemporaryDirectory(prefix="egshape.") as name:
        tasks = [_task(str(path), Path(name) / str(number), options) for number, path in enumerate(paths)]
        ended = dict(over(client, tasks))
        return [
            Outcome(task.model, done.code, _read(task, "output"), _read(task, "report").decode(), done.err)
            for task, done in ((tasks[number], ended[number]) for number in range(len(tasks)))
        ]


def _task(model: str, folder: Path, options: Mapping[str, Any]) -> Task:
    files = {"output": str(folder / Path(model).name), "report": folder / "report.json"}
    return Task(("egshape.commands.models", "optimize"), model, {**options, **files}, tuple(files))


def _read(task: Task, option: str) -> bytes:
    path = Path(task.options[option])
    return path.read_bytes() if path.is_file() else b""
