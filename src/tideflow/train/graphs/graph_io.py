"""Graphs as files.

Source: tensorflow/python/framework/graph_io.py
"""

from __future__ import annotations

import os
from typing import Any

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from tideflow.formats import AtomicFile, file_errors
from tideflow.graph.graph import Graph
from tideflow.ops.export import export


@export("io.write_graph", "train.write_graph")
def write_graph(graph_or_graph_def: Any, logdir: str, name: str, as_text: bool = True) -> str:
    """Write a graph, or a message, into a directory (made if it is not there); return the path."""
    message = graph_or_graph_def
    if isinstance(message, Graph):
        message = message.as_graph_def()
    directory = os.fspath(logdir)
    path = os.path.join(directory, name)
    if directory:
        with file_errors("make the directory", directory):
            os.makedirs(directory, exist_ok=True)
    with AtomicFile(path) as file:
        if as_text:
            file.write(text_format.MessageToString(message).encode())
        else:
            file.write(message.SerializeToString())
    return path


def read_message(path: str, message: Any) -> Any:
    """Fill a message from a file, in either its binary or its text form, and return it.

    Raises: OSError for a file that is not there or holds neither.
    """
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError as error:
        raise OSError(f"File {path} does not exist.") from error
    try:
        message.ParseFromString(data)
        return message
    except DecodeError:
        pass
    try:
        return text_format.Merge(data.decode(), message)
    except (text_format.ParseError, UnicodeDecodeError) as error:
        kind = message.DESCRIPTOR.name
        raise OSError(f"{path} holds no {kind}, neither binary nor as text: {error}") from error
