"""Op definitions agree with TensorFlow's, because graphs travel."""

from __future__ import annotations

import pytest

import tideflow.ops  # noqa: F401 - registers the ops
from tideflow.graph.attr_value import decode_attr
from tideflow.graph.op_def import get_op_def, registered_ops
from tideflow.wire import messages as pb

registry = pytest.importorskip("tensorflow.python.framework.op_def_registry")
pytestmark = pytest.mark.tensorflow


def describe_arg(arg):
    """Return an argument as (name, element type, count, type list, is a reference)."""
    return (arg.name, arg.type or arg.type_attr, arg.number_attr, arg.type_list_attr, arg.is_ref)


def describe_ours(arg):
    element = arg.dtype.number if arg.dtype is not None else arg.type_attr
    return (arg.name, element, arg.number_attr, arg.type_list_attr, arg.is_ref)


# TensorFlow's oneDNN rewriting gives a plain op another name; here that is an alias of the plain op
# and takes what that takes, which may be more.
ALIASES = [name for name in registered_ops() if name.startswith("_Mkl")]


@pytest.mark.parametrize("name", ALIASES)
def test_an_alias_has_the_inputs_and_outputs_of_tensorflows_op(name):
    theirs, ours = registry.get(name), get_op_def(name)
    assert [a.name for a in ours.inputs] == [a.name for a in theirs.input_arg]
    assert [a.name for a in ours.outputs] == [a.name for a in theirs.output_arg]


@pytest.mark.parametrize("name", ALIASES)
def test_an_alias_has_the_attrs_of_tensorflows_op_and_its_defaults(name):
    # Whoever sends a node leaves out what is the default.
    theirs, ours = registry.get(name), get_op_def(name)
    assert set(ours.attrs) == {attr.name for attr in theirs.attr}
    for attr in theirs.attr:
        check_default(ours.attrs[attr.name], attr)


# Tests of one process may have registered ops of their own.
OWN = {name for name in registered_ops() if not name.startswith("Test")}


@pytest.mark.parametrize("name", sorted(OWN - set(ALIASES)))
def test_an_op_is_defined_as_tensorflow_defines_it(name):
    theirs = registry.get(name)
    if theirs is None:
        pytest.fail(f"TensorFlow has no op {name}")
    ours = get_op_def(name)
    assert [describe_ours(a) for a in ours.inputs] == [describe_arg(a) for a in theirs.input_arg]
    assert [describe_ours(a) for a in ours.outputs] == [describe_arg(a) for a in theirs.output_arg]
    assert ours.is_stateful == theirs.is_stateful
    assert ours.is_commutative == theirs.is_commutative
    assert ours.is_aggregate == theirs.is_aggregate
    assert ours.allows_uninitialized_input == theirs.allows_uninitialized_input
    assert set(ours.attrs) == {attr.name for attr in theirs.attr}
    for attr in theirs.attr:
        check_attr(ours.attrs[attr.name], attr)


def check_attr(ours, theirs):
    assert ours.kind == theirs.type
    assert ours.minimum == (theirs.minimum if theirs.has_minimum else None)
    allowed = decode_attr(pb.AttrValue.FromString(theirs.allowed_values.SerializeToString()))
    assert set(ours.allowed or ()) == set(allowed or ())
    check_default(ours, theirs)


def check_default(ours, theirs):
    assert ours.required == (not theirs.HasField("default_value"))
    if not ours.required:
        default = decode_attr(pb.AttrValue.FromString(theirs.default_value.SerializeToString()))
        if ours.kind == "float":
            assert ours.default == pytest.approx(default, rel=1e-6)
        elif ours.kind == "tensor":
            assert ours.default.dtype == default.dtype
            assert ours.default.tolist() == default.tolist()
        else:
            assert ours.default == default
