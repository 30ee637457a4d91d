"""Names of sets of files."""

from __future__ import annotations

import numpy as np

import tideflow.v1 as tf
from tideflow.graph.building import apply_op


def test_a_pattern_stands_for_the_names_of_all_files_of_a_set():
    pattern = apply_op("ShardedFilespec", tf.constant("dir/name"), np.int32(7))
    name = apply_op("ShardedFilename", tf.constant("dir/name"), np.int32(3), np.int32(7))
    with tf.Session() as session:
        assert session.run([pattern, name]) == [
            b"dir/name-?????-of-00007",
            b"dir/name-00003-of-00007",
        ]
