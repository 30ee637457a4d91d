"""Models that one library saves and the other loads, uses and trains further."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tideflow as ours
import tideflow.v1 as our_v1
from saved_model.programs import PROGRAMS, floats, results, train_step
from saved_model.session_programs import FEEDS, save_with_table, use_signatures
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


@pytest.mark.parametrize("way", ["ours to theirs", "theirs to ours"])
def test_either_library_loads_sessions_models_of_the_other(way: str, tmp_path: Path) -> None:
    apis = our_v1, theirs.compat.v1
    writer, reader = apis if way == "ours to theirs" else reversed(apis)
    folder = str(tmp_path / "model")
    with theirs.Graph().as_default():
        save_with_table(writer, str(tmp_path), folder)
        found = [use_signatures(api, folder, ["serve"], FEEDS) for api in (reader, writer)]
    same(results(found[0]), results(found[1]))


@pytest.mark.parametrize("writer", [ours, theirs])
def test_models_of_objects_are_loaded_into_sessions(writer: Any, tmp_path: Path) -> None:
    folder = str(tmp_path / "model")
    program = PROGRAMS["dense_layers"](writer, str(tmp_path))
    writer.saved_model.save(program.model, folder)
    table = PROGRAMS["tables_from_files"](writer, str(tmp_path))
    writer.saved_model.save(table.model, folder + "-table")
    for api in (our_v1, theirs.compat.v1):
        with theirs.Graph().as_default():
            found = use_signatures(api, folder, ["serve"], {"serving_default": {"x": floats(2, 3)}})
            looked_up = use_signatures(
                api, folder + "-table", ["serve"], {"serving_default": {"words": ["dog", "bird"]}}
            )
        expected = program.model(writer.constant(floats(2, 3)))
        same(results(found["serving_default"]["output_0"]), results(expected))
        same(results(looked_up["serving_default"]["ids"]), results([1, 2]))
