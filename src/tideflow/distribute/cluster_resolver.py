"""Who belongs to the cluster, found out from where the program runs.

Source: tensorflow/python/distribute/cluster_resolver; runtime facts on resolvers.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tideflow.cluster.cluster_spec import ClusterSpec
from tideflow.ops.export import export_v2

try:
    import kubernetes
except ImportError:  # an optional extra: only KubernetesClusterResolver needs it
    kubernetes = None

_NODE_PART = re.compile(r"([^,\[]+)(?:\[([^\]]*)\])?(?:,|$)")
_TASKS_PART = re.compile(r"(\d+)(?:\(x(\d+)\))?")


@export_v2("distribute.cluster_resolver.ClusterResolver")
class ClusterResolver:
    """Says which tasks there are, and which of them this program is.

    Attributes:
      task_type, task_id: this program's job and index, or None.
      rpc_layer: the protocol, or None.
    """

    task_type: str | None = None
    task_id: int | None = None
    rpc_layer: str | None = None
    environment = ""

    def cluster_spec(self) -> ClusterSpec:
        """Return the cluster."""
        raise TypeError(f"{type(self).__name__} does not say which tasks there are")

    def master(
        self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None
    ) -> str:
        """Return the address of a task, to open sessions at; "" for none."""
        job = task_type if task_type is not None else self.task_type
        index = task_id if task_id is not None else self.task_id
        if job is None or index is None:
            return ""
        return _with_layer(
            self.cluster_spec().task_address(job, index), rpc_layer or self.rpc_layer
        )

    def num_accelerators(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        config_proto: Any = None,
    ) -> dict[str, int]:
        """Return how many accelerators each task has: none that is known of."""
        return {}

    def get_task_id(self) -> int | None:
        """Return this program's index."""
        return self.task_id

    def get_task_type(self) -> str | None:
        """Return this program's job."""
        return self.task_type


def _with_layer(address: str, layer: str | None) -> str:
    return f"{layer}://{address}" if layer else address


@export_v2("distribute.cluster_resolver.SimpleClusterResolver")
class SimpleClusterResolver(ClusterResolver):
    """A cluster that the program itself names."""

    def __init__(
        self,
        cluster_spec: Any,
        master: str = "",
        task_type: str | None = None,
        task_id: int | None = None,
        environment: str = "",
        num_accelerators: dict[str, int] | None = None,
        rpc_layer: str | None = None,
    ) -> None:
        self._spec = ClusterSpec(cluster_spec)
        self._master = master
        self.task_type, self.task_id = task_type, task_id
        self.environment = environment
        self._accelerators = dict(num_accelerators or {})
        self.rpc_layer = rpc_layer

    def cluster_spec(self) -> ClusterSpec:
        """Return the cluster."""
        return self._spec

    def master(
        self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None
    ) -> str:
        """Return a task's address, the one given when none is asked for."""
        if task_type is not None and task_id is not None:
            return super().master(task_type, task_id, rpc_layer)
        return _with_layer(self._master, rpc_layer or self.rpc_layer) if self._master else ""

    def num_accelerators(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        config_proto: Any = None,
    ) -> dict[str, int]:
        """Return what the program said."""
        return self._accelerators


@export_v2("distribute.cluster_resolver.UnionResolver")
class UnionResolver(ClusterResolver):
    """Several clusters as one.  Tasks of one job follow each other; the first resolver is the
    program's own.

    Raises: ValueError without resolvers; TypeError for something else.
    """

    def __init__(
        self,
        *args: ClusterResolver,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
    ) -> None:
        if not args:
            raise ValueError("At least one `ClusterResolver` is required")
        for resolver in args:
            if not isinstance(resolver, ClusterResolver):
                raise TypeError(f"a ClusterResolver is wanted, not {resolver!r:.60}")
        self._resolvers = args
        first = args[0]
        self.task_type = task_type if task_type is not None else first.task_type
        self.task_id = task_id if task_id is not None else first.task_id
        self.rpc_layer = rpc_layer if rpc_layer is not None else first.rpc_layer
        self.environment = first.environment

    def cluster_spec(self) -> ClusterSpec:
        """Return the clusters, joined.

        Raises: KeyError for a task that two of them name by index.
        """
        joined: dict[str, dict[int, str]] = {}
        lists: dict[str, list[str]] = {}
        for resolver in self._resolvers:
            spec = resolver.cluster_spec()
            for job in spec.jobs:
                lists.setdefault(job, []).extend(spec.tasks(job).values())
        for job, addresses in lists.items():
            joined[job] = dict(enumerate(addresses))
        return ClusterSpec(joined)

    def master(
        self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None
    ) -> str:
        """Return a task's address, or what the first resolver says."""
        if task_type is not None and task_id is not None:
            return super().master(task_type, task_id, rpc_layer)
        return self._resolvers[0].master(rpc_layer=rpc_layer)


@export_v2("distribute.cluster_resolver.TFConfigClusterResolver")
class TFConfigClusterResolver(ClusterResolver):
    """The cluster in the environment variable TF_CONFIG.

    It holds JSON: cluster, task {type, index}, and perhaps rpc_layer and session_master.
    Raises (when asked): ValueError that says what is malformed in it.
    """

    def __init__(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
        environment: str | None = None,
    ) -> None:
        self._task_type, self._task_id = task_type, task_id
        self._rpc_layer, self._environment = rpc_layer, environment

    def _config(self) -> Mapping[str, Any]:
        text = os.environ.get("TF_CONFIG", "{}")
        try:
            found = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(
                f"TF_CONFIG is not JSON: {error}; it must look like "
                '{"cluster": {"worker": ["host:port"]}, "task": {"type": "worker", "index": 0}}'
            ) from None
        if not isinstance(found, dict):
            raise ValueError(f"TF_CONFIG must be a JSON object; found {text:.60}")
        return found

    def _task(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._config().get("task", {})
        return found

    @property
    def task_type(self) -> str | None:  # type: ignore[override]
        """This program's job."""
        return self._task_type if self._task_type is not None else self._task().get("type")

    @property
    def task_id(self) -> int | None:  # type: ignore[override]
        """This program's index."""
        if self._task_id is not None:
            return self._task_id
        index = self._task().get("index")
        return None if index is None else int(index)

    @property
    def rpc_layer(self) -> str | None:  # type: ignore[override]
        """The protocol."""
        return self._rpc_layer or self._config().get("rpc_layer")

    @property
    def environment(self) -> str:  # type: ignore[override]
        """What TF_CONFIG says of where the program runs."""
        return self._environment or str(self._config().get("environment", ""))

    def cluster_spec(self) -> ClusterSpec:
        """Return the cluster; an empty one where TF_CONFIG names none."""
        return ClusterSpec(self._config().get("cluster", {}))

    def master(
        self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None
    ) -> str:
        """Return where to open sessions: session_master, "" for a lone task, else a task's own."""
        given = self._config().get("session_master")
        if given is not None:
            return str(given)
        spec = self.cluster_spec()
        if sum(len(spec.tasks(job)) for job in spec.jobs) <= 1 and task_type is None:
            return ""
        return super().master(task_type, task_id, rpc_layer)


@export_v2("distribute.cluster_resolver.SlurmClusterResolver")
class SlurmClusterResolver(ClusterResolver):
    """The tasks of a Slurm job step, read from the variables that Slurm sets.

    Args:
      jobs: how many tasks each job has, in the order in which they are dealt; all are workers by
        default.
      port_base: of the first task of a host; the others follow.
      gpus_per_node, gpus_per_task: which GPUs a task sees (CUDA_VISIBLE_DEVICES).
      auto_set_gpu: whether to set that variable.
    Raises: RuntimeError outside of a job step, or where the jobs do not add up to its tasks.
    """

    def __init__(
        self,
        jobs: Mapping[str, int] | None = None,
        port_base: int = 8888,
        gpus_per_node: int | None = None,
        gpus_per_task: int | None = None,
        tasks_per_node: Any = None,
        auto_set_gpu: bool = True,
        rpc_layer: str = "grpc",
    ) -> None:
        self._rank = int(_slurm("SLURM_PROCID"))
        count = int(_slurm("SLURM_STEP_NUM_TASKS"))
        hosts = expand_hosts(_slurm("SLURM_STEP_NODELIST"))
        per_host = _tasks_of(tasks_per_node, len(hosts))
        dealt = dict(jobs) if jobs else {"worker": count}
        if sum(dealt.values()) != count:
            raise RuntimeError(
                f"the jobs {dealt} have {sum(dealt.values())} tasks; the Slurm step has {count}"
            )
        self._auto_set_gpu, self._gpus_per_task = auto_set_gpu, gpus_per_task
        self.rpc_layer = rpc_layer
        places = [(host, i) for host, n in zip(hosts, per_host) for i in range(n)]
        self._jobs: dict[str, list[str]] = {}
        self._own: tuple[str, int] | None = None
        rank = 0
        for job in sorted(dealt):
            for index in range(dealt[job]):
                host, slot = places[rank]
                self._jobs.setdefault(job, []).append(f"{host}:{port_base + slot}")
                if rank == self._rank:
                    self._own = (job, index)
                    self._choose_gpus(slot, gpus_per_node, per_host[hosts.index(host)])
                rank += 1
        assert self._own is not None
        self.task_type, self.task_id = self._own

    def _choose_gpus(self, slot: int, per_node: int | None, tasks: int) -> None:
        if not self._auto_set_gpu or not per_node:
            return
        share = self._gpus_per_task or max(1, per_node // max(1, tasks))
        first = slot * share
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, range(first, first + share)))

    def cluster_spec(self) -> ClusterSpec:
        """Return the cluster."""
        return ClusterSpec(self._jobs)

    def get_task_info(self) -> tuple[str | None, int | None]:
        """Return this program's job and index."""
        return self.task_type, self.task_id


def _slurm(name: str) -> str:
    found = os.environ.get(name)
    if found is None:
        raise RuntimeError(f"{name} is not set: this is no Slurm job step (start it with srun)")
    return found


def expand_hosts(text: str) -> list[str]:
    """Return the hosts of a Slurm list such as `n[1-3,07],m1`, sorted."""
    hosts: list[str] = []
    for prefix, ranges in _NODE_PART.findall(text):
        if not ranges:
            hosts.append(prefix)
        for part in filter(None, ranges.split(",")):
            first, _, last = part.partition("-")
            numbers = range(int(first), int(last or first) + 1)
            hosts.extend(f"{prefix}{number:0{len(first)}d}" for number in numbers)
    return sorted(hosts)


def _tasks_of(given: Any, hosts: int) -> list[int]:
    """Return how many tasks each host has, from a number, a list or Slurm's `2(x3),1`."""
    if isinstance(given, int):
        return [given] * hosts
    if isinstance(given, Sequence) and not isinstance(given, str):
        return [int(n) for n in given]
    text = given or _slurm("SLURM_STEP_TASKS_PER_NODE")
    found: list[int] = []
    for number, times in _TASKS_PART.findall(text):
        found.extend([int(number)] * int(times or 1))
    return found


@export_v2("distribute.cluster_resolver.KubernetesClusterResolver")
class KubernetesClusterResolver(ClusterResolver):
    """The running pods of a Kubernetes cluster that carry given labels.

    Args:
      job_to_label_mapping: lists of label selectors by job.
      tf_server_port: of the servers in the pods.
      override_client: a kubernetes.client.CoreV1Api to ask; made from the configuration else.
      executable_location: accepted; the program may run within the cluster or without.
    Raises: ImportError without the kubernetes package; (when asked) RuntimeError for a pod that
    does not run.
    """

    def __init__(
        self,
        job_to_label_mapping: Mapping[str, Sequence[str]] | None = None,
        tf_server_port: int = 8470,
        rpc_layer: str = "grpc",
        override_client: Any = None,
        executable_location: Any = None,
    ) -> None:
        if override_client is None and kubernetes is None:
            raise ImportError("KubernetesClusterResolver needs `pip install kubernetes`")
        if override_client is None:
            kubernetes.config.load_kube_config()
            override_client = kubernetes.client.CoreV1Api()
        self._client = override_client
        self._labels = dict(job_to_label_mapping or {"worker": ["job-name=tensorflow"]})
        self._port = tf_server_port
        self.rpc_layer = rpc_layer

    def cluster_spec(self) -> ClusterSpec:
        """Return the pods as tasks, by their names."""
        jobs: dict[str, list[str]] = {}
        for job, selectors in self._labels.items():
            pods: dict[str, Any] = {}
            for selector in selectors:
                found = self._client.list_pod_for_all_namespaces(label_selector=selector)
                pods.update({pod.metadata.name: pod for pod in found.items or []})
            for name in sorted(pods):
                pod = pods[name]
                if pod.status.phase != "Running":
                    raise RuntimeError(f'Pod "{name}" is not running; phase: "{pod.status.phase}"')
                jobs.setdefault(job, []).append(f"{pod.status.host_ip}:{self._port}")
        return ClusterSpec(jobs)
