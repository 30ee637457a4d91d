"""Datasets that a tf.data service makes the elements of, for clients of either library."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

# What all of them give on two workers, in an order of their own.
EXPECTED: dict[str, Any] = {
    **{
        f"{mode} {compression}": sorted([2 * x, str(x)] for x in [*range(6)] * copies)
        for mode, copies in (("parallel_epochs", 2), ("distributed_epoch", 1))
        for compression in ("AUTO", None)
    },
    "once more": sorted([2 * x, str(x)] for x in range(6)),
    "rows": sorted([[1, 2], [3, 4], [5, 6]] * 2),
    "zipped": [0, 1, 2],
    "nested": [1, 1, 2],
    "batched": list(range(8)),
    "failing": "InvalidArgumentError",
    "by id": [0, 1, 2],
    "one job of two readers": sorted([*range(10)] * 2),
    "a few": 3,
    "joined": [0, 0, 1, 1, 2, 2, 3, 4],
    "mixed": [0, 0, 1, 1, 2, 2, 3, 4],
    "variables": [7, 9, 11],
    "table": [-1, 3, 4],
    "changing table": [-1, -1, 5],
    # Of how far two consumers are apart in each step, and of what they cannot read.
    "rounds": [1] * 6,
    "rounds of few": "FailedPreconditionError",
    "local rounds": "InvalidArgumentError",
    # Whether each trainer began with the first element.
    "trainers": [True, True],
    "trainers of few": ["InvalidArgumentError"] * 2,
    "trainers without job": "InvalidArgumentError",
    "trainers in rounds": "InvalidArgumentError",
    "trainers of another job": "InvalidArgumentError",
}


def attempt(work: Any) -> Any:
    """Return what a program gives, or the class of its error."""
    try:
        return work()
    except Exception as error:
        return type(error).__name__


def found_by(tf: Any, target: str) -> dict[str, Any]:
    """Return what the datasets give on a service."""
    service = tf.data.experimental.service
    data = tf.data.Dataset

    def numbers(dataset: Any) -> Any:
        return attempt(lambda: sorted(int(x) for x in dataset))

    def words(x: Any) -> Any:
        return {"twice": x * 2, "text": tf.strings.as_string(x)}

    def columns(dataset: Any) -> Any:
        return attempt(
            lambda: sorted([int(e["twice"]), e["text"].numpy().decode()] for e in dataset)
        )

    found: dict[str, Any] = {}
    for mode in ("parallel_epochs", "distributed_epoch"):
        for compression in ("AUTO", None):
            dataset = data.range(6).shuffle(3, seed=1).map(words)
            moved = dataset.apply(service.distribute(mode, target, compression=compression))
            found[f"{mode} {compression}"] = columns(moved)
    found["once more"] = columns(moved)

    def each_once(dataset: Any) -> Any:
        return dataset.apply(service.distribute("distributed_epoch", target))

    rows = each_once(data.from_tensor_slices([[1, 2], [3, 4], [5, 6]]).repeat(2))
    found["rows"] = attempt(lambda: sorted(row.numpy().tolist() for row in rows))
    # Which elements come together depends on who asks first.
    found["zipped"] = numbers(
        each_once(data.zip((data.range(3), data.range(10, 14))).map(lambda x, y: x))
    )
    found["nested"] = numbers(each_once(data.range(4).flat_map(data.range).filter(lambda x: x > 0)))
    found["batched"] = numbers(each_once(data.range(8)).batch(2).unbatch())
    bad = data.from_tensor_slices([1.0, 0.0]).map(
        lambda x: tf.debugging.check_numerics(1 / x, "bad")
    )
    found["failing"] = numbers(each_once(bad))
    name = service.register_dataset(target, data.range(3))
    found["by id"] = numbers(service.from_dataset_id("distributed_epoch", target, name))
    found["one job of two readers"] = attempt(lambda: two_readers(tf, target))
    found["a few"] = attempt(lambda: len(list(each_once(data.range(100)).take(3))))
    few, more = data.range(3), data.range(5)
    found["joined"] = numbers(each_once(few.concatenate(more)))
    found["mixed"] = numbers(each_once(data.sample_from_datasets([few, more], seed=1)))
    return found | _capturing(tf, each_once) | _shared(tf, target)


def _capturing(tf: Any, each_once: Any) -> dict[str, Any]:
    """Return what datasets give whose functions capture variables and tables."""
    few = tf.data.Dataset.range(3)

    def numbers(function: Any) -> Any:
        return attempt(lambda: sorted(int(x) for x in each_once(few.map(function))))

    two, seven = tf.Variable(2, dtype=tf.int64), tf.Variable(7, dtype=tf.int64)
    keys, values = tf.constant([1, 2], tf.int64), tf.constant([3, 4], tf.int64)
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), -1)
    changing = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, -1)
    changing.insert(keys[:1], [5])
    return {
        "variables": numbers(lambda x: x * two + seven),
        "table": numbers(table.lookup),
        "changing table": numbers(changing.lookup),
    }


def two_readers(tf: Any, target: str) -> list[int]:
    """Return what two readers of one job get together."""

    def walk() -> Any:
        distribute = tf.data.experimental.service.distribute
        job = f"shared by readers of {tf.__name__}"
        moved = distribute("parallel_epochs", target, job_name=job)
        return iter(tf.data.Dataset.range(10).apply(moved))

    one, other = walk(), walk()
    first = [int(next(one)), int(next(other))]
    return sorted(first + [int(x) for x in one] + [int(x) for x in other])


def _shared(tf: Any, target: str) -> dict[str, Any]:
    """Return what several readers of one job get."""
    service, data = tf.data.experimental.service, tf.data.Dataset
    endless = data.range(10**9).repeat()
    few = data.range(3)
    unknown = few.filter(lambda x: x >= 0)
    # Clients of a service must not meet each other's jobs.
    own = uuid.uuid4().hex

    def numbers(dataset: Any, count: int, job: str | None, **arguments: Any) -> Any:
        name = None if job is None else f"{job} {own}"
        moved = dataset.apply(
            service.distribute("parallel_epochs", target, job_name=name, **arguments)
        )
        return attempt(lambda: [int(x) for x in moved.take(count)])

    def of_consumers() -> list[Any]:
        with ThreadPoolExecutor(2) as pool:
            reading = [
                pool.submit(numbers, endless, 6, "rounds", consumer_index=i, num_consumers=2)
                for i in range(2)
            ]
            return [one.result() for one in reading]

    def of_trainer(trainer: str, dataset: Any, count: int, job: str | None, **more: Any) -> Any:
        cache = service.CrossTrainerCache(trainer)
        return numbers(
            dataset, count, job, cross_trainer_cache=cache, max_outstanding_requests=1, **more
        )

    one, other = of_consumers()
    rounds = {"consumer_index": 0, "num_consumers": 1}
    return {
        "rounds": [y - x for x, y in zip(one, other)],
        # Of one consumer: TensorFlow's worker may leave a second one waiting for ever.
        "rounds of few": numbers(unknown, 9, "rounds of few", **rounds),
        "local rounds": numbers(endless, 3, "local", target_workers="LOCAL", **rounds),
        "trainers": [0 in of_trainer(name, endless, 8, "trainers") for name in ("a", "b")],
        "trainers of few": [
            of_trainer("a", few, 9, "trainers of few"),
            of_trainer("a", unknown, 9, "trainers of few more"),
        ],
        "trainers without job": of_trainer("a", endless, 3, None),
        "trainers in rounds": of_trainer("a", endless, 3, "both", **rounds),
        "trainers of another job": numbers(endless, 3, "trainers"),
    }


# What is in each snapshot of saved_by, in an order of its own.
SAVED: dict[str, Any] = {
    "AUTO": sorted([x, str(x)] for x in range(7)),
    "None": sorted([x, str(x)] for x in range(7)),
    "GZIP": sorted([x, str(x)] for x in range(7)),
    "repeated": sorted([0, 1, 2] * 2),
    "zipped": [[0, 5], [1, 6], [2, 7]],
    "failing": "ValueError",
}


# The errors of what saved_by is refused.
REFUSED = {
    "endless": "InvalidArgumentError",
    "again": "AlreadyExistsError",
    "no directory": "InvalidArgumentError",
    "no dispatcher": "ValueError",
    "no text": "ValueError",
}


def saved_by(tf: Any, address: str, path: str) -> dict[str, Any]:
    """Have the workers of a service write snapshots to directories below a path.

    Returns: the errors of what is refused.
    """
    save, data = tf.data.experimental.distributed_save, tf.data.Dataset
    columns = data.range(7).map(lambda x: (x, tf.strings.as_string(x)))
    for compression in ("AUTO", None, "GZIP"):
        save(columns, f"{path}/{compression}", address, compression=compression)
    save(data.range(3).repeat(2), f"{path}/repeated", address)
    # On one worker a pair stays a pair: two take the splits of the sources as they come.
    save(data.zip((data.range(3), data.range(5, 8))), f"{path}/zipped", address)
    bad = data.range(3).map(lambda x: tf.debugging.check_numerics(1 / (x - x), "bad x"))
    save(bad, f"{path}/failing", address)
    three = data.range(3)
    endless = three.repeat()
    return {
        "endless": attempt(lambda: save(endless, f"{path}/refused", address)),
        "again": attempt(lambda: save(three, f"{path}/AUTO", address)),
        "no directory": attempt(lambda: save(three, "", address)),
        "no dispatcher": attempt(lambda: save(three, f"{path}/refused", "")),
        "no text": attempt(lambda: save(three, f"{path}/refused", 5)),
    }


def loaded_by(tf: Any, path: str) -> dict[str, Any]:
    """Return what is in the snapshots of saved_by, all of which have ended."""

    def rows(name: str) -> Any:
        return attempt(lambda: sorted(map(_row, tf.data.Dataset.load(f"{path}/{name}"))))

    return {name: rows(name) for name in SAVED}


def _row(element: Any) -> Any:
    if not isinstance(element, tuple):
        return int(element)
    return [one.numpy().decode() if one.dtype.name == "string" else int(one) for one in element]
