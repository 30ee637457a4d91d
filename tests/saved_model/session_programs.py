"""Models of sessions that either library saves and loads."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

# What the models give for X.
X = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)


def save_with_table(v1: Any, folder: str, directory: str) -> None:
    """Save two graphs, the first with variables, a table with its file, and what fills it."""
    path = os.path.join(folder, "words.txt")
    with open(path, "w") as file:
        file.write("cat\ndog\n")
    builder = v1.saved_model.Builder(directory)
    for tag in ("serve", "train"):
        with v1.Graph().as_default() as graph, v1.Session(graph=graph) as session:
            x = v1.placeholder(v1.float32, [None, 2], name="x")
            w = v1.get_variable("w", initializer=[[2.0], [3.0]], use_resource=True)
            b = v1.get_variable("b", initializer=1.0, use_resource=False)
            file_name = v1.constant(path)
            v1.add_to_collection(v1.GraphKeys.ASSET_FILEPATHS, file_name)
            initializer = v1.lookup.TextFileInitializer(
                file_name, v1.string, v1.lookup.TextFileIndex.WHOLE_LINE,
                v1.int64, v1.lookup.TextFileIndex.LINE_NUMBER,
            )  # fmt: skip
            table = v1.lookup.StaticHashTable(initializer, -1)
            words = v1.placeholder(v1.string, [None], name="words")
            signatures = {
                "serving_default": v1.saved_model.predict_signature_def(
                    {"x": x}, {"y": v1.add(v1.matmul(x, w), b, name="y")}
                ),
                "ids": v1.saved_model.predict_signature_def(
                    {"words": words}, {"ids": table.lookup(words)}
                ),
            }
            session.run([v1.global_variables_initializer(), v1.tables_initializer()])
            session.run(w.assign_add([[1.0], [1.0]]))
            assets = v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS)[:1]
            if tag == "serve":
                builder.add_meta_graph_and_variables(
                    session, [tag], signatures, assets, main_op=v1.tables_initializer()
                )
            else:
                builder.add_meta_graph([tag], signatures, strip_default_attrs=True)
    builder.save()


def use_signatures(v1: Any, directory: str, tags: list[str], feeds: dict[str, Any]) -> Any:
    """Return what the signatures of a model give in a session: by their names, for feeds."""
    with v1.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        meta = v1.saved_model.load(session, tags, directory)
        found = {}
        for name, given in feeds.items():
            signature = meta.signature_def[name]
            wanted = {key: info.name for key, info in signature.outputs.items()}
            fed = {signature.inputs[key].name: value for key, value in given.items()}
            found[name] = session.run(wanted, fed)
        return found


FEEDS = {"serving_default": {"x": X}, "ids": {"words": ["dog", "bird", "cat"]}}


def save_simply(v1: Any, directory: str) -> None:
    """Save one graph with `simple_save`."""
    with v1.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        x = v1.placeholder(v1.float32, [None, 2], name="x")
        w = v1.Variable([[2.0], [3.0]], name="w")
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, directory, {"x": x}, {"y": v1.matmul(x, w)})
