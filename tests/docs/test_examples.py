"""The examples in docstrings of public functions and classes run, and give what they say.

In an example `tf` is tideflow.v1 where it uses a session or where only that has the name, and
tideflow elsewhere.
"""

from __future__ import annotations

import doctest
import enum
import inspect

import pytest

import tideflow
import tideflow.v1
import tideflow.v2
from tideflow.eager.eager_graph import disable_eager_execution, enable_eager_execution
from tideflow.ops.export import exports, exports_v2
from tideflow.ops.later import load_all

# Modules whose public names must each say what they take, and show it in an example.
COMPLETE = (
    "tideflow.eager.data",
    "tideflow.eager.data_experimental",
    "tideflow.ops.data.debug_mode",
    "tideflow.ops.data.experimental_api",
    "tideflow.ops.data.experimental_methods",
    "tideflow.ops.data.file_datasets",
    "tideflow.ops.data.functions_api",
    "tideflow.ops.data.grouping_api",
    "tideflow.ops.data.list_sources",
    "tideflow.ops.data.optional_api",
    "tideflow.ops.data.options_api",
    "tideflow.ops.data.parsed",
    "tideflow.ops.data.record_io",
    "tideflow.ops.data.saving_api",
    "tideflow.ops.data.service_api",
    "tideflow.ops.data.session_iterators",
    "tideflow.ops.data.structures_v1",
    "tideflow.ops.data.transformations_api",
    "tideflow.ops.data.type_specs",
    "tideflow.ops.data.walked",
    "tideflow.ops.nn.activations",
    "tideflow.ops.nn.avg_pools",
    "tideflow.ops.nn.batch_norm",
    "tideflow.ops.nn.bias",
    "tideflow.ops.nn.blocks_api",
    "tideflow.ops.nn.candidate_samplers_api",
    "tideflow.ops.nn.convolution_any",
    "tideflow.ops.nn.convolutions",
    "tideflow.ops.nn.cross_entropy",
    "tideflow.ops.nn.ctc",
    "tideflow.ops.nn.ctc_beams",
    "tideflow.ops.nn.depthwise",
    "tideflow.ops.nn.dropouts",
    "tideflow.ops.nn.dual_ascent",
    "tideflow.ops.nn.embedding",
    "tideflow.ops.nn.embedding_sparse",
    "tideflow.ops.nn.fractional_pools",
    "tideflow.ops.nn.isotonic",
    "tideflow.ops.nn.layers",
    "tideflow.ops.nn.learned_samplers",
    "tideflow.ops.nn.losses",
    "tideflow.ops.nn.moment_ops",
    "tideflow.ops.nn.morphology",
    "tideflow.ops.nn.pairwise_loss",
    "tideflow.ops.nn.pool_any",
    "tideflow.ops.nn.pools",
    "tideflow.ops.nn.pools_argmax",
    "tideflow.ops.nn.response_norm",
    "tideflow.ops.nn.sampled_losses",
    "tideflow.ops.nn.top_values",
    "tideflow.ops.nn.volume_pools",
    "tideflow.ops.nn.volumes",
    "tideflow.ops.nn.weighted_losses",
    "tideflow.train.optimizers.adam",
    "tideflow.train.optimizers.first_order",
    "tideflow.train.optimizers.learning_rate_decay",
    "tideflow.train.optimizers.loss_scales",
    "tideflow.train.optimizers.moving_averages",
    "tideflow.train.optimizers.optimizer",
    "tideflow.train.v2.adaptive",
    "tideflow.train.v2.checkpoint",
    "tideflow.train.v2.optimizer",
    "tideflow.train.v2.optimizers",
    "tideflow.train.v2.schedules",
    "tideflow.train.v2.views",
)
# Arguments that need no word of their own.
IMPLIED = ("self", "cls", "name", "args", "kwargs")


# Importing the front door has made operations eager, and all tests may share a process.
disable_eager_execution()


@pytest.fixture(autouse=True)
def eager():
    enable_eager_execution()
    yield
    disable_eager_execution()


def public_objects():
    """Yield (shortest name, `tf` of its shape, object) for all functions and classes."""
    load_all()
    names: dict[int, tuple[str, bool, object]] = {}
    for table, is_v2 in ((exports(), False), (exports_v2(), True)):
        for name, thing in table.items():
            if _is_own(thing):
                known = names.get(id(thing))
                if known is None or len(name) < len(known[0]):
                    names[id(thing)] = (name, is_v2 or _has(tideflow, name), thing)
    for name, is_v2, thing in names.values():
        tf = tideflow if is_v2 else tideflow.v1
        yield name, tf, thing
        if thing.__module__ in COMPLETE and inspect.isclass(thing):
            yield from ((f"{name}.{own}", tf, method) for own, method in _methods(thing))


def _is_own(thing):
    """Tell whether tideflow defines it: tf.experimental.numpy shows NumPy's own classes, too."""
    is_known = inspect.isfunction(thing) or inspect.isclass(thing)
    return is_known and thing.__module__.startswith("tideflow.")


def _methods(cls):
    """Yield the names and functions of a class's own public methods.

    Those of TypeSpecs are for the runtime, and TypeSpec says what they do.
    """
    if issubclass(cls, tideflow.TypeSpec):
        return
    for name, member in vars(cls).items():
        if isinstance(member, classmethod | staticmethod):
            member = member.__func__
        if inspect.isfunction(member) and not name.startswith("_") and _is_documented_here(member):
            yield name, member


def _is_documented_here(method):
    return method.__module__.startswith(("tideflow.eager.data", "tideflow.ops.data."))


def _is_enum(thing):
    """Tell whether a class is an enum, whose members are made without a call."""
    return inspect.isclass(thing) and issubclass(thing, enum.Enum)


def _has(module, name):
    found = module
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is not None


PUBLIC = sorted(public_objects(), key=lambda one: one[0])
WITH_EXAMPLES = [one for one in PUBLIC if ">>> " in (inspect.getdoc(one[2]) or "")]


@pytest.mark.parametrize(("name", "tf", "thing"), WITH_EXAMPLES, ids=[n for n, *_ in WITH_EXAMPLES])
def test_example_gives_what_it_says(name, tf, thing):
    text = inspect.getdoc(thing)
    tf = tideflow.v1 if "tf.Session" in text else tf
    example = doctest.DocTestParser().get_doctest(text, {"tf": tf}, name, None, 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    said: list[str] = []
    if tf is tideflow.v1:
        with tf.Graph().as_default():
            runner.run(example, out=said.append)
    else:
        runner.run(example, out=said.append)
    assert runner.failures == 0, "".join(said)


@pytest.mark.parametrize(
    "thing",
    [thing for *_, thing in PUBLIC if getattr(thing, "__module__", "") in COMPLETE],
    ids=lambda thing: thing.__qualname__,
)
def test_docstring_says_arguments_and_shows_an_example(thing):
    text = inspect.getdoc(thing) or ""
    takes = [] if _is_enum(thing) else [*inspect.signature(thing).parameters]
    takes = [p for p in takes if p not in IMPLIED]
    assert not takes or "Args:" in text, "say what the arguments are, with shapes and types"
    undocumented = [name for name in takes if name not in text]
    assert not undocumented, f"say what {undocumented} are"
    assert ">>> " in text, "show an example"
