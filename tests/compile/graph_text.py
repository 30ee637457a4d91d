"""Graphs as text, to read and to compare: one node on each line.

    x = Placeholder() dtype=float32
    two = Const() value=2.0
    y = Mul(x, two) ^init @ps

A line says the node's name, op, inputs, attrs, the nodes that it waits for (`^init`), and its
device: `@ps` is /job:ps/replica:0/task:0/device:CPU:0, `@ps:1` task 1, `@ps/GPU:0` the device
GPU:0; other names of devices stand as they are.  `a:1` is output 1 of a; a list of inputs stands in
brackets.  Attrs that inputs tell, and those with their default value, are left out.  Inputs may
come from later lines, as they do in loops.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from tideflow.graph.node import Edge, FunctionRef, Node, arg_types
from tideflow.graph.op_def import AttrDef, OpDef, get_op_def
from tideflow.graph.shapes import TensorShape
from tideflow.wire import dtypes
from tideflow.wire.device_name import full_name
from tideflow.wire.dtypes import DType

_LINE = re.compile(r"(?P<name>[\w./]+) *= *(?P<op>\w+)\((?P<inputs>[^)]*)\)(?P<rest>.*)")
_FULL_DEVICE = re.compile(r"/job:(\w+)/replica:0/task:(\d+)/device:(\w+:\d+)")
_SHORT_DEVICE = re.compile(r"(\w+)(?::(\d+))?(?:/(\w+:\d+))?")


# ---- from text


def parse(text: str) -> dict[str, Node]:
    """Return the nodes that a text tells of by name, in the text's order."""
    lines = [found for line in text.splitlines() if (found := _LINE.fullmatch(line.strip()))]
    nodes = {m["name"]: Node(m["name"], get_op_def(m["op"]), [], [], {}) for m in lines}
    for line in lines:
        node = nodes[line["name"]]
        inputs = [_edges(one, nodes) for one in _split(line["inputs"], ",")]
        node.edges = [edge for several in inputs for edge in several]
        given: dict[str, str] = {}
        for word in _split(line["rest"], " "):
            if word.startswith("^"):
                node.controls.append(nodes[word[1:]])
            elif word.startswith("@"):
                node.device = long_device(word[1:])
            else:
                key, _, value = word.partition("=")
                given[key] = value
        node.attrs = _attrs(node, inputs, given)
    return nodes


def _split(text: str, separator: str) -> list[str]:
    """Split a text where no bracket or quote is open."""
    parts, depth, quote = [""], 0, ""
    for char in text:
        if char in "'\"" and quote in ("", char):
            quote = "" if quote else char
        depth += (char in "[({") - (char in "])}")
        if char == separator and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts if part.strip()]


def _edges(text: str, nodes: Mapping[str, Node]) -> list[Edge]:
    names = _split(text[1:-1], ",") if text.startswith("[") else [text]
    pairs = [name.partition(":") for name in names]
    return [(nodes[name], int(port or 0)) for name, _, port in pairs]


def _attrs(node: Node, inputs: list[list[Edge]], given: dict[str, str]) -> dict[str, Any]:
    op_def = node.op_def
    attrs: dict[str, Any] = {}
    for arg, edges in zip(op_def.inputs, inputs):
        types = [t for t in map(_type_of, edges) if t is not None]
        if arg.type_list_attr:
            attrs[arg.type_list_attr] = types
        elif arg.type_attr and types:
            attrs.setdefault(arg.type_attr, types[0].base_dtype)
        if arg.number_attr:
            attrs[arg.number_attr] = len(edges)
    for name, attr in op_def.attrs.items():
        if name in given:
            attrs[name] = _value(attr, given.pop(name))
        elif name not in attrs and not attr.required:
            attrs[name] = attr.default
    if "value" in op_def.attrs and "dtype" in op_def.attrs and "dtype" not in attrs:
        attrs["dtype"] = dtypes.dtype_of(attrs["value"])
    return attrs | {name: ast.literal_eval(value) for name, value in given.items()}


def _type_of(edge: Edge) -> DType | None:
    """Return an edge's element type; None where its producer comes later, in a loop."""
    node, port = edge
    try:
        return arg_types(node.op_def.outputs, node.attrs)[port]
    except KeyError:
        return None


def _value(attr: AttrDef, text: str) -> Any:
    if attr.kind == "type":
        return dtypes.as_dtype(text)
    if attr.kind == "list(type)":
        return [dtypes.as_dtype(one) for one in _split(text[1:-1], ",")]
    if attr.kind == "func":
        return FunctionRef(text)
    if attr.kind == "string" and text[:1] not in ("'", '"'):
        return long_device(text) if text.startswith("@") else text
    value = ast.literal_eval(text)
    if attr.kind == "shape":
        return TensorShape(value)
    if attr.kind == "tensor":
        array = np.asarray(value, object if text[:1] in ("'", '"') else None)
        if array.dtype == object:
            return np.array(value.encode(), object)
        return array.astype({"f": np.float32, "i": np.int32}.get(array.dtype.kind, array.dtype))
    return value


def long_device(short: str) -> str:
    """Return the full name of a device that is told in short."""
    found = _SHORT_DEVICE.fullmatch(short)
    if found is None:
        return short
    job, task, device = found.groups()
    name = full_name(job, int(task or 0))
    return name if device is None else name.rpartition("/")[0] + f"/device:{device}"


# ---- to text


def to_text(nodes: Iterable[Node]) -> str:
    """Return nodes as text, a line for each."""
    return "".join(f"{_line(node)}\n" for node in nodes)


def _line(node: Node) -> str:
    words = [f"{node.name} = {node.op}({', '.join(_input_texts(node))})"]
    words += [f"{name}={_text(value)}" for name, value in _telling_attrs(node)]
    words += [f"^{one.name}" for one in node.controls]
    if node.device:
        words.append(f"@{short_device(node.device)}")
    return " ".join(words)


def _input_texts(node: Node) -> Iterator[str]:
    left = [source.name + (f":{port}" if port else "") for source, port in node.edges]
    for arg in node.op_def.inputs:
        if not arg.is_list:
            yield left.pop(0)
            continue
        attr = node.attrs[arg.number_attr or arg.type_list_attr]
        count = attr if arg.number_attr else len(attr)
        yield f"[{', '.join(left[:count])}]"
        del left[:count]


def _telling_attrs(node: Node) -> Iterator[tuple[str, Any]]:
    told = _told_by_inputs(node.op_def)
    for name, value in node.attrs.items():
        attr = node.op_def.attrs.get(name)
        is_default = attr is not None and not attr.required and _text(value) == _text(attr.default)
        if name not in told and not is_default:
            yield name, value


def _told_by_inputs(op_def: OpDef) -> set[str]:
    found = {
        name
        for arg in op_def.inputs
        for name in (arg.type_attr, arg.number_attr, arg.type_list_attr)
    }
    # Which incarnation of a device it is says nothing here.
    found |= {"send_device_incarnation"}
    return found | {"dtype"} if "value" in op_def.attrs else found


def _text(value: Any) -> str:
    if isinstance(value, (np.ndarray, np.generic)):
        return str(np.asarray(value).tolist())
    if isinstance(value, (DType, FunctionRef)):
        return str(value.name)
    if isinstance(value, TensorShape):
        return str(None if value.rank is None else value.as_list())
    if isinstance(value, str):
        return short_device(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    return str(value)


def short_device(name: str) -> str:
    """Return the short form of a device's full name; other texts as they are."""
    found = _FULL_DEVICE.fullmatch(name)
    if found is None:
        return name
    job, task, device = found.groups()
    short = job if task == "0" else f"{job}:{task}"
    return short if device == "CPU:0" else f"{short}/{device}"
