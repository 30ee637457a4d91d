"""Loops as TensorFlow's gradients of loops want them.

These take the first two values of a While op for the number of turns so far and the most that are
made (-1 for no bound); loops that were traced here have no such values, and get them when they
are written.

Source: tensorflow/python/ops/while_v2.py.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tideflow.graph.attr_value import encode_attr
from tideflow.graph.shapes import TensorShape
from tideflow.wire import dtypes
from tideflow.wire import messages as pb

# The functions that a loop has, and nothing else.
_FUNCTIONS = frozenset({"cond", "body"})
_TURNS, _MOST = "loop_counter", "maximum_iterations"
_SUFFIX = "_counted"


def with_counted_loops(functions: Iterable[pb.FunctionDef]) -> list[pb.FunctionDef]:
    """Return functions in which each loop counts its turns, and the functions for that."""
    known = {function_pb.signature.name: function_pb for function_pb in functions}
    conds: set[str] = set()
    bodies: set[str] = set()
    for function_pb in known.values():
        for node_pb in list(function_pb.node_def):
            if node_pb.attr.keys() >= _FUNCTIONS:
                conds.add(node_pb.attr["cond"].func.name)
                bodies.add(node_pb.attr["body"].func.name)
                _count_turns(function_pb, node_pb)
    made = [_with_arguments(known[name]) for name in sorted(conds)]
    made += [_with_results(_with_arguments(known[name])) for name in sorted(bodies)]
    return [*known.values(), *made]


def _count_turns(function_pb: pb.FunctionDef, node_pb: pb.NodeDef) -> None:
    """Give a loop two values more, and let what reads its results read behind them."""
    taken = {other.name for other in function_pb.node_def}
    starts = []
    for what, start in ((_TURNS, 0), (_MOST, -1)):
        name = _unused(f"{node_pb.name}/{what}", taken)
        function_pb.node_def.append(_constant(name, start))
        starts.append(f"{name}:output:0")
    node_pb.input[:] = [*starts, *node_pb.input]
    node_pb.attr["T"].list.type[:] = [dtypes.int32.number] * 2 + list(node_pb.attr["T"].list.type)
    if node_pb.attr["output_shapes"].list.shape:
        both = encode_attr("list(shape)", [TensorShape(())] * 2)
        both.list.shape.extend(node_pb.attr["output_shapes"].list.shape)
        node_pb.attr["output_shapes"].CopyFrom(both)
    for name in ("cond", "body"):
        node_pb.attr[name].func.name += _SUFFIX
    prefix = f"{node_pb.name}:output:"
    for other in function_pb.node_def:
        other.input[:] = [_behind(text, prefix) for text in other.input]
    for name, text in list(function_pb.ret.items()):
        function_pb.ret[name] = _behind(text, prefix)


def _behind(text: str, prefix: str) -> str:
    return f"{prefix}{int(text[len(prefix) :]) + 2}" if text.startswith(prefix) else text


def _unused(wish: str, taken: set[str]) -> str:
    name, count = wish, 0
    while name in taken:
        count += 1
        name = f"{wish}_{count}"
    taken.add(name)
    return name


def _constant(name: str, value: int) -> pb.NodeDef:
    node_pb = pb.NodeDef(name=name, op="Const")
    node_pb.attr["dtype"].CopyFrom(encode_attr("type", dtypes.int32))
    node_pb.attr["value"].CopyFrom(encode_attr("tensor", np.int32(value)))
    return node_pb


def _with_arguments(given_pb: pb.FunctionDef) -> pb.FunctionDef:
    """Return a function with two arguments more, before its own, that it does not use."""
    function_pb = pb.FunctionDef()
    function_pb.CopyFrom(given_pb)
    function_pb.signature.name += _SUFFIX
    taken = {node_pb.name for node_pb in given_pb.node_def}
    taken |= {arg_pb.name for arg_pb in given_pb.signature.input_arg}
    own = list(given_pb.signature.input_arg)
    del function_pb.signature.input_arg[:]
    for what in (_TURNS, _MOST):
        name = _unused(what, taken)
        function_pb.signature.input_arg.add(name=name, type=dtypes.int32.number)
    function_pb.signature.input_arg.extend(own)
    if "_input_shapes" in given_pb.attr:
        shapes = encode_attr("list(shape)", [TensorShape(())] * 2)
        shapes.list.shape.extend(given_pb.attr["_input_shapes"].list.shape)
        function_pb.attr["_input_shapes"].CopyFrom(shapes)
    function_pb.arg_attr.clear()
    for place, attrs in given_pb.arg_attr.items():
        function_pb.arg_attr[place + 2].CopyFrom(attrs)
    return function_pb


def _with_results(function_pb: pb.FunctionDef) -> pb.FunctionDef:
    """Give a body two results more, before its own: one turn more, and the bound as it is."""
    signature_pb = function_pb.signature
    taken = {node_pb.name for node_pb in function_pb.node_def}
    taken |= {arg_pb.name for arg_pb in signature_pb.input_arg}
    one = _unused("one_turn", taken)
    function_pb.node_def.append(_constant(one, 1))
    sum_pb = function_pb.node_def.add(name=_unused("next_turn", taken), op="AddV2")
    sum_pb.attr["T"].CopyFrom(encode_attr("type", dtypes.int32))
    turns, most = (arg_pb.name for arg_pb in list(signature_pb.input_arg)[:2])
    sum_pb.input.extend([turns, f"{one}:output:0"])
    own = list(signature_pb.output_arg)
    names = {arg_pb.name for arg_pb in own} | taken
    del signature_pb.output_arg[:]
    for wish, source in (("turns", f"{sum_pb.name}:z:0"), ("most", most)):
        name = _unused(wish, names)
        signature_pb.output_arg.add(name=name, type=dtypes.int32.number)
        function_pb.ret[name] = source
    signature_pb.output_arg.extend(own)
    return function_pb
