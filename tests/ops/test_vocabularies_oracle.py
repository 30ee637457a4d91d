"""Where words of one vocabulary stand in another, beside TensorFlow."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops.one_graph import Run, check_both_run
from tideflow.graph.building import apply_op

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow


def test_words_are_found_in_the_other_file(tmp_path: Path) -> None:
    new, old, double = (tmp_path / name for name in ("new", "old", "double"))
    new.write_text("a\nb\nc\nd\ne\n")
    old.write_text("c\na\nx\nb\n")
    double.write_text("a\nb\na\n")

    def build() -> list[Run]:
        def remapped(offset: int, count: int, size: int = -1, one: Path = new) -> Run:
            attrs = {"new_vocab_offset": offset, "num_new_vocab": count, "old_vocab_size": size}
            return Run(list(apply_op("GenerateVocabRemapping", str(one), str(old), **attrs)))

        return [
            remapped(0, 5),
            remapped(1, 3),
            remapped(0, 5, 2),
            remapped(0, 0),
            remapped(0, 5, 4),
            remapped(0, 5, 9),
            remapped(3, 5),
            remapped(0, 3, one=double),
            remapped(0, 2, one=tmp_path / "nothing"),
        ]

    check_both_run(build, ["GenerateVocabRemapping"])
