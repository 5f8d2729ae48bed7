"""Tasks over the processes of this machine, or the workers of a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from egshape.commands.work import Done, Task, each


def spread(tasks: Sequence[Task], jobs: int, cluster: str | None) -> Iterator[tuple[int, Done]]:
    """What became of tasks, with their numbers, as they end; over the workers of a cluster where its address is given.
    Raises EgshapeError where none answers."""
    if cluster is None:
        return each(tasks, jobs)
    from egshape.commands.cluster import on

    return on(cluster, tasks, jobs)
