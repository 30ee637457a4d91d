"""Where words of one vocabulary stand in another."""

from __future__ import annotations

from pathlib import Path

import pytest

import tideflow.v1 as tf
from tideflow.graph.building import apply_op


def test_words_are_found_in_the_other_file(tmp_path: Path) -> None:
    new, old = tmp_path / "new", tmp_path / "old"
    new.write_text("a\nb\nc\n")
    old.write_text("c\nx\na\n")
    files = str(new), str(old)
    found = apply_op("GenerateVocabRemapping", *files, new_vocab_offset=0, num_new_vocab=3)
    more = apply_op("GenerateVocabRemapping", *files, new_vocab_offset=1, num_new_vocab=3)
    with tf.Session() as session:
        remapping, present = session.run(list(found))
        assert (remapping.tolist(), int(present)) == ([2, -1, 0], 2)
        with pytest.raises(tf.errors.InvalidArgumentError, match="has 3 words"):
            session.run(list(more))
