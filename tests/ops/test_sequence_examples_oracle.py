"""Records, and records of sequences, become the tensors that TensorFlow makes of them."""

from __future__ import annotations

import numpy as np
import pytest

from ops.outcomes import Call, as_array, check_ends_alike
from ops.sequence_records import FIRST, NO_LISTS, NOTHING, SECOND, sequence
from ops.test_examples_oracle import BARE as PLAIN_BARE
from ops.test_examples_oracle import EMPTY as PLAIN_EMPTY
from ops.test_examples_oracle import FIRST as PLAIN_FIRST
from ops.test_examples_oracle import SECOND as PLAIN_SECOND

tensorflow = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

INT, FLOAT, STRING = "int64", "float", "string"
NONE = np.empty(0, object)
NO_INT, NO_FLOAT = np.empty(0, np.int64), np.empty(0, np.float32)


RAGGED_TYPES = [
    *("context_ragged_value_types", "context_ragged_split_types"),
    *("feature_list_ragged_value_types", "feature_list_ragged_split_types"),
]
NEITHER = [
    *("context_sparse_types", "context_dense_shapes", "feature_list_dense_types"),
    *("feature_list_sparse_types", "feature_list_dense_shapes"),
]


def no_lists(*attrs):
    return {attr: [] for attr in attrs}


def keys(given):
    return as_array([one[0].encode() for one in given]) if given else NONE


def scalars(given):
    return tuple(as_array(one[0].encode()) for one in given)


def names(given):
    return [one[0] for one in given]


def column(given, at):
    return [one[at] for one in given]


# ---- records


def example_calls(serialized, dense=(), sparse=(), ident=""):
    """The two older ops: dense (key, default, shape), sparse (key, type)."""
    kinds = {"sparse_types": column(sparse, 1), "dense_shapes": column(dense, 2)}
    defaults = tuple(column(dense, 1))
    return [
        Call(
            "ParseExample",
            [as_array(serialized), NONE, scalars(sparse), scalars(dense), defaults],
            kinds,
            id=f"batch-{ident}",
        ),
        Call(
            "ParseSingleExample",
            [as_array(np.ravel(as_array(serialized))[0]), defaults],
            kinds
            | {
                "num_sparse": len(sparse),
                "sparse_keys": names(sparse),
                "dense_keys": names(dense),
            },
            id=f"one-{ident}",
        ),
    ]


TWO = ("i", NO_INT, [2])
EXAMPLES = [
    *example_calls([PLAIN_FIRST, PLAIN_SECOND], [TWO, ("f", NO_FLOAT, [])], ident="dense"),
    *example_calls([PLAIN_FIRST], [TWO], [("s", STRING), ("none", FLOAT)], ident="both"),
    *example_calls([PLAIN_BARE], [("i", np.array([8, 9]), [2])], ident="default"),
    *example_calls([PLAIN_EMPTY], [("i", np.array([8, 9]), [2])], ident="default-for-nothing"),
    *example_calls([PLAIN_BARE], [TWO], ident="missing"),
    *example_calls([PLAIN_FIRST], [("i", NO_INT, [3])], ident="another-size"),
    *example_calls([PLAIN_FIRST], [("f", NO_INT, [1])], ident="another-type"),
    *example_calls([PLAIN_FIRST], [("i", np.array([1]), [2])], ident="another-default"),
    *example_calls([PLAIN_FIRST], [("i", np.array(7), [None])], ident="rows"),
    *example_calls([b"no record"], [TWO], ident="no-record"),
    *example_calls([PLAIN_FIRST], [], [("s", INT)], ident="sparse-type"),
    example_calls([[PLAIN_FIRST]], [TWO], ident="matrix")[0],
    example_calls(NONE.tolist() or [PLAIN_FIRST] * 3, [TWO], ident="three")[0],
]


# ---- records of sequences


def sequence_calls(
    serialized, context_dense=(), context_sparse=(), dense=(), sparse=(), ident="", labels=NONE
):
    """The three ops.  context_dense: (key, default, shape); dense: (key, type, shape, may miss)."""
    shared = {
        "context_sparse_types": column(context_sparse, 1),
        "context_dense_shapes": column(context_dense, 2),
        "feature_list_dense_types": column(dense, 1),
        "feature_list_sparse_types": column(sparse, 1),
        "feature_list_dense_shapes": column(dense, 2),
    }
    counts = {
        "Ncontext_sparse": len(context_sparse),
        "Nfeature_list_sparse": len(sparse),
        "Nfeature_list_dense": len(dense),
    }
    may_miss = [one[0] for one in dense if one[3]]
    defaults = tuple(column(context_dense, 1))
    given = as_array(serialized)
    single = as_array(np.ravel(given)[0]) if given.size else as_array(NOTHING)
    return [
        *(
            Call(
                "ParseSequenceExampleV2",
                [
                    *(one, labels, keys(context_sparse), keys(context_dense), NONE),
                    *(keys(sparse), keys(dense), NONE, np.array(column(dense, 3), np.bool_)),
                    defaults,
                ],
                shared
                | counts
                | {
                    key: []
                    for key in [
                        *("context_ragged_value_types", "context_ragged_split_types"),
                        *("feature_list_ragged_value_types", "feature_list_ragged_split_types"),
                    ]
                },
                id=f"{'batch' if one is given else 'single'}-v2-{ident}",
            )
            for one in (given, single)
        ),
        Call(
            "ParseSequenceExample",
            [given, labels, defaults],
            shared
            | counts
            | {
                "Ncontext_dense": len(context_dense),
                "feature_list_dense_missing_assumed_empty": may_miss,
                "context_sparse_keys": names(context_sparse),
                "context_dense_keys": names(context_dense),
                "feature_list_sparse_keys": names(sparse),
                "feature_list_dense_keys": names(dense),
            },
            id=f"v1-{ident}",
        ),
        Call(
            "ParseSingleSequenceExample",
            [
                *(single, as_array([m.encode() for m in may_miss]) if may_miss else NONE),
                *(scalars(context_sparse), scalars(context_dense), scalars(sparse)),
                *(scalars(dense), defaults, as_array("label")),
            ],
            shared,
            id=f"single-{ident}",
        ),
    ]


PAIR = ("i", NO_INT, [2])
F2 = ("f", FLOAT, [2], False)
SEQUENCES = [
    *sequence_calls(
        *([FIRST, SECOND], [PAIR], [("s", STRING), ("none", FLOAT)]),
        *([F2], [("v", INT), ("none", STRING)], "all"),
    ),
    *sequence_calls([NO_LISTS, FIRST], dense=[F2], ident="list-missing"),
    *sequence_calls([NO_LISTS, FIRST], dense=[("f", FLOAT, [2], True)], ident="list-may-miss"),
    *sequence_calls([FIRST], dense=[("f", FLOAT, [3], True)], ident="another-size"),
    *sequence_calls([FIRST], dense=[("f", FLOAT, [1, 2], True)], ident="matrices"),
    *sequence_calls([FIRST], dense=[("f", INT, [2], True)], ident="another-type"),
    *sequence_calls([FIRST], sparse=[("f", INT)], ident="sparse-type"),
    *sequence_calls([FIRST], context_sparse=[("i", FLOAT)], ident="context-type"),
    *sequence_calls([NOTHING], sparse=[("v", INT)], ident="steps-of-nothing"),
    *sequence_calls([NOTHING], dense=[("f", FLOAT, [2], True)], ident="dense-of-nothing"),
    *sequence_calls([NOTHING], [("i", np.array([8, 9]), [2])], ident="context-of-nothing"),
    *sequence_calls([SECOND], [("x", np.array([8, 9]), [2])], ident="default"),
    *sequence_calls([SECOND], [("x", NO_INT, [2])], ident="no-default"),
    *sequence_calls([SECOND], [("i", NO_INT, [1])], ident="context-size"),
    *sequence_calls([SECOND], [("i", np.array([1]), [2])], ident="another-default"),
    *sequence_calls([SECOND], [("i", NO_INT, [None])], ident="open-context"),
    *sequence_calls([SECOND], dense=[("f", FLOAT, [None], True)], ident="open-steps"),
    *sequence_calls([b"no record"], sparse=[("v", INT)], ident="no-record"),
    *sequence_calls([[FIRST]], sparse=[("v", INT)], ident="matrix"),
    *sequence_calls([FIRST], sparse=[("v", INT)], ident="labels", labels=as_array(["a", "b"])),
    *sequence_calls([FIRST, SECOND, NO_LISTS], sparse=[("v", INT)], ident="three"),
    *sequence_calls(
        [sequence({}, v=[[b"a"], [b"b", b""]])], dense=[], sparse=[("v", STRING)], ident="strings"
    ),
]


def ragged_call(serialized, given, in_context, ident):
    kinds = [kind for _, kind, _ in given]
    splits = [split for _, _, split in given]
    here, there = ("context", "feature_list") if in_context else ("feature_list", "context")
    labels = (keys(given), NONE) if in_context else (NONE, keys(given))
    return Call(
        "ParseSequenceExampleV2",
        [
            as_array(serialized),
            *[NONE] * 3,
            labels[0],
            *[NONE] * 2,
            labels[1],
            np.zeros(0, bool),
            (),
        ],
        {
            f"{here}_ragged_value_types": kinds,
            f"{here}_ragged_split_types": splits,
            f"{there}_ragged_value_types": [],
            f"{there}_ragged_split_types": [],
            **{
                key: []
                for key in [
                    *("context_sparse_types", "context_dense_shapes", "feature_list_dense_types"),
                    *("feature_list_sparse_types", "feature_list_dense_shapes"),
                ]
            },
        },
        id=ident,
    )


RAGGED = [
    ragged_call(
        [FIRST, SECOND, NO_LISTS], [("v", INT, "int32"), ("f", FLOAT, INT)], False, "steps"
    ),
    ragged_call([FIRST, SECOND], [("i", INT, "int32"), ("s", STRING, INT)], True, "context"),
    ragged_call([FIRST], [("v", FLOAT, "int32")], False, "ragged-type"),
    ragged_call([NOTHING], [("v", INT, "int32")], False, "ragged-nothing"),
    ragged_call(NONE, [("v", INT, "int32")], False, "no-records"),
]


@pytest.mark.parametrize("call", [*EXAMPLES, *SEQUENCES, *RAGGED], ids=str)
def test_records_become_what_tensorflow_makes_of_them(call: Call) -> None:
    check_ends_alike(tensorflow, call)
