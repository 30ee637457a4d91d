"""Models that one library saves and the other loads, uses and trains further."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tideflow as ours
from saved_model.programs import PROGRAMS, results, train_step
from saved_model.test_round_trips import same

theirs = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize("way", ["ours to theirs", "theirs to ours"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_either_library_loads_what_the_other_saves(name: str, way: str, tmp_path: Path) -> None:
    writer, reader = (ours, theirs) if way == "ours to theirs" else (theirs, ours)
    saved: Any = PROGRAMS[name](writer, str(tmp_path))
    writer.saved_model.save(saved.model, str(tmp_path / "model"), saved.signatures)
    loaded = reader.saved_model.load(str(tmp_path / "model"))
    used = PROGRAMS[name](reader, str(tmp_path))
    same(results(used.use(loaded)), results(saved.use(saved.model)))
    if saved.loss is not None:
        trained = train_step(writer, saved.model, saved.loss)
        same(train_step(reader, loaded, used.loss), trained)
