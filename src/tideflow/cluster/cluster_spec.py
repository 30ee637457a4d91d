"""Who is in a cluster: jobs, their tasks and addresses; and where a process learns its own place.

    cluster = ClusterSpec({"ps": ["host0:2222"], "worker": ["host1:2222", "host2:2222"]})

Source: tensorflow/python/training/server_lib.py; TF_CONFIG as TensorFlow's estimators read it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from tideflow.ops.export import export
from tideflow.wire import messages as pb

Jobs: TypeAlias = "Mapping[str, Sequence[str] | Mapping[int, str]]"

_JOB_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.%a-z]+\]|[^\s:/\[\]]+):([0-9]{1,5})", re.ASCII)
_EXAMPLE = '{"ps": ["host0:2222"], "worker": ["host1:2222", "host2:2222"]}'


@export("train.ClusterSpec")
class ClusterSpec:
    """The jobs of a cluster and the addresses of their tasks; it never changes.

    Args:
      cluster: a dict from job names to lists of `host:port`, or to dicts from task indices to
        `host:port` (indices may have gaps), or a ClusterDef, or another ClusterSpec.
    Raises: TypeError for anything else; ValueError for a malformed job name or address, or an
    address that two tasks share.
    """

    def __init__(self, cluster: Jobs | pb.ClusterDef | ClusterSpec) -> None:
        self._tasks: dict[str, dict[int, str]] = {}
        for job, tasks in _jobs_of(cluster).items():
            self._tasks[job] = dict(sorted(_tasks_of(job, tasks).items()))
        self._check_addresses()

    @classmethod
    def from_json(cls, source: str | os.PathLike[str]) -> ClusterSpec:
        """Return the cluster that JSON text, or a file with such text, describes.

        The text is an object of lists: `{"ps": ["host:port"], "worker": ["host:port"]}`.
        Raises: ValueError that points at what is malformed; OSError for a file that cannot be read.
        """
        text, where = _read_json(source, "cluster")
        return _cluster_from(_parse_json(text, where), where)

    def _check_addresses(self) -> None:
        owners: dict[str, str] = {}
        for job, tasks in self._tasks.items():
            for index, address in tasks.items():
                task = f"/job:{job}/task:{index}"
                _check_address(task, address)
                # Port 0 is a port of the system's choice: another one for each task.
                if owners.get(address) and not address.endswith(":0"):
                    raise ValueError(
                        f"{owners[address]} and {task} have the same address {address!r}; "
                        "give each task a host:port of its own"
                    )
                owners[address] = task

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClusterSpec):
            return NotImplemented
        return self._tasks == other._tasks

    def __hash__(self) -> int:
        return hash(tuple((job, tuple(tasks.items())) for job, tasks in self._sorted()))

    def __repr__(self) -> str:
        return f"ClusterSpec({dict(sorted(self.as_dict().items()))!r})"

    @property
    def jobs(self) -> list[str]:
        """The names of the jobs, in the order in which they were given."""
        return list(self._tasks)

    def num_tasks(self, job_name: str) -> int:
        """Return how many tasks a job has.  Raises: ValueError for an unknown job."""
        return len(self._job(job_name))

    def task_indices(self, job_name: str) -> list[int]:
        """Return the indices of a job's tasks.  Raises: ValueError for an unknown job."""
        return list(self._job(job_name))

    def tasks(self, job_name: str) -> dict[int, str]:
        """Return a job's addresses by index.  Raises: ValueError for an unknown job."""
        return dict(self._job(job_name))

    def task_address(self, job_name: str, task_index: int) -> str:
        """Return a task's `host:port`.  Raises: ValueError for an unknown job or task."""
        tasks = self._job(job_name)
        if task_index not in tasks:
            known = ", ".join(map(str, tasks)) or "none"
            raise ValueError(
                f"job {job_name!r} has no task {task_index!r}; the indices of its tasks are {known}"
            )
        return tasks[task_index]

    def job_tasks(self, job_name: str) -> list[str | None]:
        """Return a job's addresses by index, None in the gaps.  Raises: ValueError."""
        tasks = self._job(job_name)
        return [tasks.get(index) for index in range(max(tasks, default=-1) + 1)]

    def as_dict(self) -> dict[str, list[str] | dict[int, str]]:
        """Return what the constructor takes: a list for each job, a dict for one with gaps."""
        found: dict[str, list[str] | dict[int, str]] = {}
        for job, tasks in self._tasks.items():
            dense = list(tasks) == list(range(len(tasks)))
            found[job] = list(tasks.values()) if dense else dict(tasks)
        return found

    def as_cluster_def(self) -> pb.ClusterDef:
        """Return the cluster as a message, with its jobs sorted by name."""
        return pb.ClusterDef(
            job=[pb.JobDef(name=job, tasks=tasks) for job, tasks in self._sorted()]
        )

    def _sorted(self) -> list[tuple[str, dict[int, str]]]:
        return sorted(self._tasks.items())

    def _job(self, job_name: str) -> dict[int, str]:
        if job_name not in self._tasks:
            known = ", ".join(map(repr, self._tasks)) or "none"
            raise ValueError(f"the cluster has no job {job_name!r}; its jobs are {known}")
        return self._tasks[job_name]


def _jobs_of(cluster: Any) -> Mapping[str, Any]:
    if isinstance(cluster, ClusterSpec):
        return cluster._tasks
    if isinstance(cluster, Mapping):
        return cluster
    # Any ClusterDef will do, TensorFlow's own as well.
    if getattr(getattr(cluster, "DESCRIPTOR", None), "name", "") == "ClusterDef":
        names = [job_pb.name for job_pb in cluster.job]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"the ClusterDef has job {name!r} twice; give each job once")
        return {job_pb.name: dict(job_pb.tasks) for job_pb in cluster.job}
    raise TypeError(
        f"a cluster is a dict such as {_EXAMPLE}, a ClusterDef or a ClusterSpec; "
        f"found {type(cluster).__name__}"
    )


def _tasks_of(job: object, tasks: Any) -> dict[int, str]:
    if not isinstance(job, str) or not _JOB_NAME.fullmatch(job):
        raise ValueError(
            f"{job!r} is not a job name; it must be letters, digits and _, and begin with a letter"
        )
    if isinstance(tasks, Mapping):
        for index in tasks:
            if not isinstance(index, int) or isinstance(index, bool) or index < 0:
                raise ValueError(f"job {job!r} has the task index {index!r}; it must be 0 or above")
        return dict(tasks)
    if isinstance(tasks, str) or not isinstance(tasks, Sequence):
        raise TypeError(
            f"the tasks of job {job!r} must be a list of host:port, or a dict from indices to "
            f"them; found {tasks!r}"
        )
    return dict(enumerate(tasks))


def _check_address(task: str, address: object) -> None:
    if not isinstance(address, str):
        raise TypeError(f"{task} has the address {address!r}; it must be a string host:port")
    if address.startswith("unix:"):
        return
    found = _ADDRESS.fullmatch(address)
    if found is None or int(found[2]) > 65535:
        raise ValueError(
            f"{task} has the address {address!r}; it must be host:port, such as localhost:2222"
        )


# ---- a process's own place


@dataclass(frozen=True)
class TaskConfig:
    """A cluster and this process's place in it, as the environment variable TF_CONFIG tells them.

    {"cluster": {"ps": [...], "worker": [...]}, "task": {"type": "worker", "index": 0}}
    """

    cluster: ClusterSpec
    job: str
    task: int

    @classmethod
    def from_json(cls, text: str, where: str = "TF_CONFIG") -> TaskConfig:
        """Return what the text says.  Raises: ValueError that points at what is malformed."""
        found = _parse_json(text, where)
        if not isinstance(found, dict) or "cluster" not in found or "task" not in found:
            raise ValueError(
                f'{where} must be an object with "cluster" and "task"; found {_brief(found)}'
            )
        cluster = _cluster_from(found["cluster"], f'"cluster" in {where}')
        task = found["task"]
        if not isinstance(task, dict) or "type" not in task:
            raise ValueError(
                f'"task" in {where} must be like {{"type": "worker", "index": 0}}; '
                f"found {_brief(task)}"
            )
        job, index = task["type"], task.get("index", 0)
        try:
            index = int(index)
        except (TypeError, ValueError):
            raise ValueError(f'"index" in {where} must be a number; found {index!r}') from None
        try:
            cluster.task_address(job, index)
        except ValueError as error:
            raise ValueError(f'"task" in {where}: {error}') from None
        return cls(cluster, job, index)

    @classmethod
    def from_environment(cls) -> TaskConfig | None:
        """Return what TF_CONFIG says, or None when it is not set.  Raises: ValueError."""
        text = os.environ.get("TF_CONFIG", "")
        return cls.from_json(text) if text.strip() else None


def _read_json(source: str | os.PathLike[str], what: str) -> tuple[str, str]:
    if isinstance(source, str) and source.lstrip().startswith(("{", "[", '"')):
        return source, f"the {what} JSON"
    try:
        return Path(source).read_text(encoding="utf-8"), str(source)
    except FileNotFoundError:
        raise ValueError(
            f"{str(source)!r} is neither a file nor JSON; a {what} looks like {_EXAMPLE}"
        ) from None


def _parse_json(text: str, where: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_without_repeats)
    except json.JSONDecodeError as error:
        line = text.splitlines()[error.lineno - 1] if text.strip() else ""
        raise ValueError(
            f"{where} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}\n"
            f"  {line}\n  {' ' * (error.colno - 1)}^"
        ) from None


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the JSON has the name {twice!r} twice in one object")
    return found


def _cluster_from(found: Any, where: str) -> ClusterSpec:
    if not isinstance(found, dict):
        raise ValueError(f"{where} must be an object such as {_EXAMPLE}; found {_brief(found)}")
    jobs = {job: _with_int_keys(tasks) for job, tasks in found.items()}
    try:
        return ClusterSpec(jobs)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {error}") from None


def _with_int_keys(tasks: Any) -> Any:
    """Take a dict of tasks by index, whose keys JSON can only spell as strings."""
    if not isinstance(tasks, dict):
        return tasks
    return {int(k) if k.isdecimal() else k: address for k, address in tasks.items()}


def _brief(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "..."
