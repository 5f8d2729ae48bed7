"""Tasks on the workers of a Dask cluster. Models go there as bytes and results come back so: no folder is shared."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from egshape.atomic import write_atomic
from egshape.commands import record
from egshape.commands.work import Done, Task, each
from egshape.errors import EgshapeError, MissingDependency
from egshape.hints import install

LOCAL = "local"
"""The address of a cluster that is started on this machine and ends with the command."""
_ADDRESS, _SUCH = re.compile(r"://.|[^/]:\d+$"), "such as tcp://HOST:8786, or local"
_SECONDS = 10
"""How long a scheduler may take to answer."""
_AHEAD = 2
"""Tasks for each thread of the workers that are on their way or in work: none waits for the next."""


def on(address: str, tasks: Sequence[Task], jobs: int) -> Iterator[tuple[int, Done]]:
    """What became of tasks, with their numbers, as they end; of a cluster that is started here, ``jobs`` are the
    workers. Raises MissingDependency without Dask, EgshapeError where nothing answers."""
    with _client(address, jobs) as client:
        yield from over(client, tasks)


def over(client: Any, tasks: Sequence[Task]) -> Iterator[tuple[int, Done]]:
    """The same on a ``distributed.Client``. A task whose worker dies is given to another one."""
    threads = sum(client.nthreads().values())
    if not threads:
        raise EgshapeError(
            "the cluster has no worker", hint="start some with: dask worker ADDRESS --nthreads 1", code="cluster"
        )
    executor = client.get_executor(pure=False)
    for number, done in each(tasks, _AHEAD * threads, lambda _: executor, _sent):
        for name, data in done.written.items():
            option, _, inside = name.partition("/")
            write_atomic(Path(tasks[number].options[option]).parent / inside, data)
        yield number, replace(done, written={})


def _sent(task: Task) -> Task:
    """A task with the content of its files. Raises EgshapeError for one that cannot be read."""
    model = Path(task.model)
    try:
        files = record.parts(model, task.options.get("format")) if task.parts is None else task.parts
        sent = {os.path.relpath(file, model.parent): file.read_bytes() for file in files}
    except OSError as error:
        raise EgshapeError(f"cannot be read: {error.strerror}", where=task.model, code="read") from error
    return replace(task, sent=sent)


@contextmanager
def _client(address: str, jobs: int) -> Iterator[Any]:
    try:
        import distributed
    except ImportError:
        raise MissingDependency("Dask is not installed", hint=install("cluster")) from None
    if address != LOCAL:
        if not _ADDRESS.search(address):  # a client that cannot be made does not end well
            raise EgshapeError("is no address of a scheduler", where=address, hint=_SUCH, code="cluster")
        try:
            client = distributed.Client(address, timeout=_SECONDS, set_as_default=False)
        except (OSError, ValueError) as error:  # TimeoutError is one of the first
            why = f"no Dask scheduler answers: {error}"
            raise EgshapeError(why, where=address, hint=_SUCH, code="cluster") from None
        with client:
            yield client
        return
    with (
        distributed.LocalCluster(
            n_workers=jobs, threads_per_worker=1, dashboard_address=None, silence_logs="ERROR"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client
