"""Who is in a cluster, and what is said of descriptions that make no sense."""

from __future__ import annotations

import json

import pytest

from tideflow.cluster import ClusterSpec, TaskConfig
from tideflow.wire import messages as pb

SMALL = {"ps": ["a:1"], "worker": ["b:2", "c:3"]}


def test_it_tells_jobs_tasks_and_addresses():
    cluster = ClusterSpec(SMALL)
    assert cluster.jobs == ["ps", "worker"]
    assert cluster.num_tasks("worker") == 2
    assert cluster.task_indices("worker") == [0, 1]
    assert cluster.task_address("worker", 1) == "c:3"
    assert cluster.job_tasks("worker") == ["b:2", "c:3"]
    assert cluster.as_dict() == SMALL
    assert bool(cluster)
    assert not ClusterSpec({})


@pytest.mark.parametrize(
    "form", [dict, lambda s: ClusterSpec(s), lambda s: ClusterSpec(s).as_cluster_def()]
)
def test_every_form_gives_the_same_cluster(form):
    assert ClusterSpec(form(SMALL)) == ClusterSpec(SMALL)
    assert hash(ClusterSpec(form(SMALL))) == hash(ClusterSpec(SMALL))


def test_jobs_keep_their_order_but_for_the_message_and_the_text():
    cluster = ClusterSpec({"worker": ["b:2"], "ps": ["a:1"]})
    assert cluster.jobs == list(cluster.as_dict()) == ["worker", "ps"]
    assert [job.name for job in cluster.as_cluster_def().job] == ["ps", "worker"]
    assert repr(cluster) == "ClusterSpec({'ps': ['a:1'], 'worker': ['b:2']})"
    assert cluster == ClusterSpec({"ps": ["a:1"], "worker": ["b:2"]})
    assert hash(cluster) == hash(ClusterSpec({"ps": ["a:1"], "worker": ["b:2"]}))


def test_a_job_may_have_gaps():
    cluster = ClusterSpec({"worker": {3: "c:3", 1: "b:2"}})
    assert cluster.task_indices("worker") == [1, 3]
    assert cluster.job_tasks("worker") == [None, "b:2", None, "c:3"]
    assert cluster.as_dict() == {"worker": {1: "b:2", 3: "c:3"}}
    assert ClusterSpec(cluster.as_cluster_def()) == cluster


def test_clusters_that_differ_are_not_equal():
    assert ClusterSpec(SMALL) != ClusterSpec({**SMALL, "ps": ["d:1"]})
    assert ClusterSpec(SMALL) != SMALL


@pytest.mark.parametrize(
    ("job", "task", "said"),
    [
        ("chief", 0, "no job 'chief'; its jobs are 'ps', 'worker'"),
        ("worker", 2, "no task 2; the indices of its tasks are 0, 1"),
    ],
)
def test_an_unknown_task_is_answered_with_those_that_are_there(job, task, said):
    with pytest.raises(ValueError, match=said):
        ClusterSpec(SMALL).task_address(job, task)


@pytest.mark.parametrize(
    ("cluster", "said"),
    [
        ({"a": ["h:1"], "b": ["h:1"]}, "/job:a/task:0 and /job:b/task:0 have the same address"),
        ({"a": ["h"]}, "/job:a/task:0 has the address 'h'; it must be host:port"),
        ({"a": ["grpc://h:1"]}, "must be host:port"),
        ({"a": ["h:99999"]}, "must be host:port"),
        ({"a": ["h:1x"]}, "must be host:port"),
        ({"1a": ["h:1"]}, "'1a' is not a job name"),
        ({"a": {-1: "h:1"}}, "task index -1"),
        (
            pb.ClusterDef(job=[pb.JobDef(name="a"), pb.JobDef(name="a")]),
            "job 'a' twice",
        ),
    ],
)
def test_a_bad_cluster_is_refused_with_what_would_be_right(cluster, said):
    with pytest.raises(ValueError, match=said):
        ClusterSpec(cluster)


@pytest.mark.parametrize("cluster", [["h:1"], {"a": "h:1"}, {"a": [1]}, None])
def test_another_type_is_refused(cluster):
    with pytest.raises(TypeError):
        ClusterSpec(cluster)


def test_tasks_on_ports_still_to_be_chosen_may_look_alike():
    assert ClusterSpec({"a": ["localhost:0", "localhost:0"]}).num_tasks("a") == 2


# ---- JSON


def test_json_may_be_text_or_a_file(tmp_path):
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(SMALL))
    assert ClusterSpec.from_json(json.dumps(SMALL)) == ClusterSpec(SMALL)
    assert ClusterSpec.from_json(path) == ClusterSpec.from_json(str(path)) == ClusterSpec(SMALL)
    assert ClusterSpec.from_json('{"a": {"3": "h:1"}}').task_indices("a") == [3]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"ps": ["a:1"]', r"line 1, column 15\n  \{\"ps\": \[\"a:1\"\]\n +\^"),
        ('["a:1"]', "must be an object such as"),
        ('{"ps": ["a:1"], "ps": []}', "name 'ps' twice"),
        ('{"ps": ["a"]}', "the cluster JSON: /job:ps/task:0 has the address 'a'"),
        ('{"ps": "a:1"}', "must be a list"),
        ("no_such_file", "neither a file nor JSON"),
    ],
)
def test_malformed_json_is_pointed_at(text, said):
    with pytest.raises(ValueError, match=said):
        ClusterSpec.from_json(text)


def test_tf_config_tells_the_own_place(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    assert TaskConfig.from_environment() is None
    text = json.dumps({"cluster": SMALL, "task": {"type": "worker", "index": 1}})
    monkeypatch.setenv("TF_CONFIG", text)
    assert TaskConfig.from_environment() == TaskConfig(ClusterSpec(SMALL), "worker", 1)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({}, '"cluster" and "task"'),
        ({"cluster": SMALL, "task": "worker"}, '"task" in TF_CONFIG must be like'),
        ({"cluster": SMALL, "task": {"type": "worker", "index": "x"}}, "must be a number"),
        ({"cluster": SMALL, "task": {"type": "boss", "index": 0}}, "no job 'boss'"),
        ({"cluster": SMALL, "task": {"type": "worker", "index": 2}}, "no task 2"),
        ({"cluster": {"ps": ["a"]}, "task": {"type": "ps"}}, '"cluster" in TF_CONFIG: /job:ps'),
    ],
)
def test_a_malformed_tf_config_is_pointed_at(config, said):
    with pytest.raises(ValueError, match=said):
        TaskConfig.from_json(json.dumps(config))
