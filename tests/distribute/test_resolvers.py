"""Who belongs to a cluster, found out from the environment or from who knows."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

import tideflow as tf

resolvers = tf.distribute.cluster_resolver
CLUSTER = {"chief": ["c:1"], "ps": ["p:1", "p:2"], "worker": ["w:1"]}


def set_config(monkeypatch: pytest.MonkeyPatch, **config: Any) -> None:
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))


# ---- TF_CONFIG


def test_the_environment_names_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    set_config(monkeypatch, cluster=CLUSTER, task={"type": "ps", "index": "1"}, rpc_layer="grpc")
    found = resolvers.TFConfigClusterResolver()
    assert found.cluster_spec().as_dict() == CLUSTER
    assert (found.task_type, found.task_id, found.rpc_layer) == ("ps", 1, "grpc")
    assert found.master() == "grpc://p:2"
    assert found.master("worker", 0) == "grpc://w:1"
    given = resolvers.TFConfigClusterResolver("worker", 0, "x")
    assert (given.task_type, given.task_id, given.rpc_layer) == ("worker", 0, "x")


def test_no_environment_is_an_empty_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    found = resolvers.TFConfigClusterResolver()
    assert not found.cluster_spec().jobs
    assert found.master() == ""
    assert found.task_type is None


def test_a_lone_task_needs_no_master(monkeypatch: pytest.MonkeyPatch) -> None:
    set_config(monkeypatch, cluster={"worker": ["w:1"]}, task={"type": "worker", "index": 0})
    assert resolvers.TFConfigClusterResolver().master() == ""


def test_a_master_can_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    set_config(monkeypatch, cluster=CLUSTER, session_master="m:9")
    assert resolvers.TFConfigClusterResolver().master() == "m:9"


@pytest.mark.parametrize(("text", "said"), [("{", "not JSON"), ("[1]", "JSON object")])
def test_a_malformed_environment_is_described(
    monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ValueError, match=said):
        resolvers.TFConfigClusterResolver().cluster_spec()


# ---- Slurm


def set_step(monkeypatch: pytest.MonkeyPatch, rank: int, count: int, nodes: str, per: str) -> None:
    monkeypatch.setenv("SLURM_PROCID", str(rank))
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", str(count))
    monkeypatch.setenv("SLURM_STEP_NODELIST", nodes)
    monkeypatch.setenv("SLURM_STEP_TASKS_PER_NODE", per)


def test_a_slurm_step_is_dealt_among_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    set_step(monkeypatch, 3, 4, "n[1-2,07]", "1(x2),2")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    found = resolvers.SlurmClusterResolver({"worker": 3, "ps": 1}, gpus_per_node=2)
    assert found.cluster_spec().as_dict() == {
        "ps": ["n07:8888"],
        "worker": ["n1:8888", "n2:8888", "n2:8889"],
    }
    assert found.get_task_info() == ("worker", 2)
    assert found.master() == "grpc://n2:8889"


def test_all_of_a_slurm_step_are_workers_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    set_step(monkeypatch, 0, 2, "a,b", "1(x2)")
    found = resolvers.SlurmClusterResolver(port_base=10)
    assert found.cluster_spec().as_dict() == {"worker": ["a:10", "b:10"]}


def test_no_slurm_step_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_PROCID", raising=False)
    with pytest.raises(RuntimeError, match=r"SLURM_PROCID is not set.*srun"):
        resolvers.SlurmClusterResolver()
    set_step(monkeypatch, 0, 2, "a,b", "1(x2)")
    with pytest.raises(RuntimeError, match="the Slurm step has 2"):
        resolvers.SlurmClusterResolver({"worker": 3})


# ---- Kubernetes


class FakeClient:
    """Answers as kubernetes.client.CoreV1Api does."""

    def __init__(self, **phases: str) -> None:
        self.phases = phases
        self.asked: list[str] = []

    def list_pod_for_all_namespaces(self, label_selector: str) -> SimpleNamespace:
        self.asked.append(label_selector)
        return SimpleNamespace(
            items=[
                SimpleNamespace(
                    metadata=SimpleNamespace(name=f"{label_selector}-{name}"),
                    status=SimpleNamespace(phase=phase, host_ip=f"{label_selector[:1]}-{name}"),
                )
                for name, phase in self.phases.items()
            ]
        )


def test_pods_are_tasks_in_the_order_of_their_names() -> None:
    client = FakeClient(b="Running", a="Running")
    found = resolvers.KubernetesClusterResolver(override_client=client)
    assert found.cluster_spec().as_dict() == {"worker": ["j-a:8470", "j-b:8470"]}
    assert client.asked == ["job-name=tensorflow"]
    labelled = resolvers.KubernetesClusterResolver(
        {"ps": ["x"], "worker": ["y", "z"]}, tf_server_port=1, override_client=client
    )
    assert labelled.cluster_spec().as_dict() == {
        "ps": ["x-a:1", "x-b:1"],
        "worker": ["y-a:1", "y-b:1", "z-a:1", "z-b:1"],
    }
    assert labelled.master("ps", 1) == "grpc://x-b:1"


def test_a_pod_that_does_not_run_is_named() -> None:
    found = resolvers.KubernetesClusterResolver(override_client=FakeClient(a="Pending"))
    with pytest.raises(RuntimeError, match='-a" is not running; phase: "Pending"'):
        found.cluster_spec()


# ---- named by the program


def test_a_program_names_its_cluster() -> None:
    found = resolvers.SimpleClusterResolver(
        tf.train.ClusterSpec(CLUSTER), master="m:1", task_type="ps", task_id=1, rpc_layer="grpc"
    )
    assert found.cluster_spec().as_dict() == CLUSTER
    assert found.master() == "grpc://m:1"
    assert found.master("ps", 0) == "grpc://p:1"


def test_clusters_are_joined_job_by_job() -> None:
    first = resolvers.SimpleClusterResolver(tf.train.ClusterSpec(CLUSTER), task_type="chief")
    second = resolvers.SimpleClusterResolver(tf.train.ClusterSpec({"worker": ["v:1"]}))
    found = resolvers.UnionResolver(first, second)
    assert found.cluster_spec().as_dict() == {**CLUSTER, "worker": ["w:1", "v:1"]}
    assert found.task_type == "chief"
    with pytest.raises(ValueError, match="At least one"):
        resolvers.UnionResolver()
    with pytest.raises(TypeError, match="ClusterResolver is wanted"):
        resolvers.UnionResolver("worker:1")
