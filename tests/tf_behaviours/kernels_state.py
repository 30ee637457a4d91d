"""Tables, lists, stacks, and what changes variables."""

# ruff: noqa: B023 - programs are written as users write them

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np

from tf_behaviours.registry import behaviour, error

lists = functools.partial(behaviour, "python/kernel_tests/data_structures/list_ops_test.py")
stacks = functools.partial(behaviour, "python/kernel_tests/data_structures/stack_op_test.py")
tables = functools.partial(behaviour, "python/kernel_tests/data_structures/lookup_ops_test.py")
resources = functools.partial(
    behaviour, "python/kernel_tests/variables/resource_variable_ops_test.py"
)
dense = functools.partial(behaviour, "python/kernel_tests/variables/dense_update_ops_test.py")
references = functools.partial(behaviour, "python/kernel_tests/variables/variable_ops_test.py")
parts = functools.partial(behaviour, "python/kernel_tests/variables/partitioned_variables_test.py")


def _started(tf: Any) -> Any:
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    return session


# ---- tables


@tables("A table of keys and values looks up, counts, and is initialized once.")
def static_tables(tf: Any) -> Any:
    keys, values = tf.constant(["brain", "salad", "surgery"]), tf.constant([0, 1, 2], tf.int64)
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), -1)
    out, size = table.lookup(tf.constant(["brain", "salad", "tank"])), table.size()
    with tf.Session() as session:
        unset = error(lambda: session.run(out))
        session.run(tf.tables_initializer())
        session.run(tf.tables_initializer())
        return [unset, session.run([out, size]), table.key_dtype.name, table.value_dtype.name]


@tables("Keys of one value twice are fine, of two values are refused; so are other types.")
def refused_tables(tf: Any) -> Any:
    def made(keys: Any, values: Any) -> Any:
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), -1)
        with tf.Session() as session:
            session.run(table.initializer if hasattr(table, "initializer") else table.init)
            return session.run(table.size())

    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a"], [1]), -1)
    return [
        error(lambda: made(["a", "a"], [1, 1])),
        error(lambda: made(["a", "a"], [1, 2])),
        error(lambda: made(["a", "b"], [1])),
        error(lambda: table.lookup(tf.constant([1, 2]))),
        error(
            lambda: tf.lookup.StaticHashTable(
                tf.lookup.KeyValueTensorInitializer(["a"], [1]), "default"
            )
        ),
    ]


@tables("Lines of a file are keys and values, by column and number.")
def tables_of_files(tf: Any, folder: str) -> Any:
    path = str(Path(folder, "vocabulary"))
    Path(path).write_text("0\tbrain\n1\tsalad\n2\tsurgery\n")
    index = tf.lookup.TextFileIndex
    found = []
    for key_type, key, value_type, value, default, asked in (
        (tf.string, 1, tf.int64, index.LINE_NUMBER, -1, ["salad", "tarkus"]),
        (tf.int64, 0, tf.string, 1, "none", [2, 5]),
        (tf.string, index.WHOLE_LINE, tf.int64, index.LINE_NUMBER, -1, ["1\tsalad"]),
    ):
        made = tf.lookup.TextFileInitializer(path, key_type, key, value_type, value)
        table = tf.lookup.StaticHashTable(made, default)
        out = table.lookup(tf.constant(asked, key_type))
        with tf.Session() as session:
            session.run(tf.tables_initializer())
            found.append(session.run(out))
    wrong = tf.lookup.TextFileInitializer(path, tf.string, 5, tf.int64, index.LINE_NUMBER)
    bad = tf.lookup.StaticHashTable(wrong, -1)
    with tf.Session() as session:
        found.append(error(lambda: session.run(bad.initializer)))
    return found


@tables("Keys that a vocabulary lacks go to buckets.")
def bucketed_tables(tf: Any) -> Any:
    made = tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([0, 1], tf.int64))
    table = tf.lookup.StaticVocabularyTable(made, num_oov_buckets=3)
    only = tf.lookup.StaticVocabularyTable(None, num_oov_buckets=2)
    asked = tf.constant(["a", "x", "b", "y"])
    with tf.Session() as session:
        session.run(tf.tables_initializer())
        return [
            session.run(table.lookup(asked)),
            session.run(table.size()),
            session.run(only.lookup(asked)),
            error(lambda: tf.lookup.StaticVocabularyTable(made, num_oov_buckets=0)),
        ]


@tables("A mutable table takes, gives, removes and exports entries.")
def mutable_tables(tf: Any) -> Any:
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    put = table.insert(tf.constant(["a", "b", "c"]), tf.constant([1, 2, 3], tf.int64))
    remove = table.remove(tf.constant(["b", "z"]))
    out = table.lookup(tf.constant([["a", "b"], ["c", "d"]]))
    exported = table.export()
    with tf.Session() as session:
        session.run(put)
        found = [session.run(table.size()), session.run(out)]
        session.run(remove)
        keys, values = session.run(exported)
        pairs = sorted(zip(keys.tolist(), values.tolist()))
        return [
            *found,
            session.run(out),
            [[k.decode(), v] for k, v in pairs],
            error(lambda: table.insert(tf.constant([1]), tf.constant([1], tf.int64))),
            error(lambda: session.run(table.insert(tf.constant(["a"]), [1, 2]))),
        ]


# ---- lists and stacks


@lists("A list of tensors grows, shrinks, and is read and set in place.")
def tensor_lists(tf: Any) -> Any:
    raw = tf.raw_ops
    empty = raw.EmptyTensorList(
        element_shape=tf.constant([], tf.int32), max_num_elements=2, element_dtype=tf.float32
    )
    one = raw.TensorListPushBack(input_handle=empty, tensor=1.0)
    two = raw.TensorListPushBack(input_handle=one, tensor=2.0)
    over = raw.TensorListPushBack(input_handle=two, tensor=3.0)
    pop = functools.partial(raw.TensorListPopBack, element_shape=[], element_dtype=tf.float32)
    none = pop(input_handle=empty, element_shape=tf.constant([], tf.int32))
    popped = pop(input_handle=two, element_shape=tf.constant([], tf.int32))
    changed = raw.TensorListSetItem(input_handle=two, index=0, item=9.0)
    stacked = raw.TensorListStack(
        input_handle=changed, element_shape=tf.constant([], tf.int32), element_dtype=tf.float32
    )
    with tf.Session() as session:
        return [
            session.run(popped.tensor),
            session.run(raw.TensorListLength(input_handle=popped.output_handle)),
            session.run(stacked),
            error(lambda: session.run(raw.TensorListLength(input_handle=over))),
            error(lambda: session.run(none.tensor)),
        ]


@lists("Items are taken out of a tensor, gathered, scattered and concatenated.")
def whole_lists(tf: Any) -> Any:
    raw = tf.raw_ops
    scalar = tf.constant([], tf.int32)
    made = raw.TensorListFromTensor(tensor=[1.0, 2.0, 3.0], element_shape=scalar)
    get = functools.partial(raw.TensorListGetItem, input_handle=made, element_dtype=tf.float32)
    gathered = raw.TensorListGather(
        input_handle=made, indices=[2, 0], element_shape=scalar, element_dtype=tf.float32
    )
    scattered = raw.TensorListScatterV2(
        tensor=[5.0, 6.0], indices=[1, 0], element_shape=scalar, num_elements=-1
    )
    rows = raw.TensorListFromTensor(tensor=[[1.0, 2.0], [3.0, 4.0]], element_shape=[2])
    joined = raw.TensorListConcatV2(
        input_handle=rows,
        element_shape=[-1],
        leading_dims=tf.constant([], tf.int64),
        element_dtype=tf.float32,
    )
    with tf.Session() as session:
        return [
            session.run(get(index=1, element_shape=scalar)),
            error(lambda: session.run(get(index=5, element_shape=scalar))),
            session.run(gathered),
            session.run(get(input_handle=scattered, index=0, element_shape=scalar)),
            session.run(list(joined)),
        ]


@lists("Lists with reserved places hold zeros until they are set; gradients pass through.")
def reserved_lists(tf: Any) -> Any:
    raw = tf.raw_ops
    scalar = tf.constant([], tf.int32)
    x = tf.constant([1.0, 2.0, 3.0])
    made = raw.TensorListFromTensor(tensor=x, element_shape=scalar)
    stack = functools.partial(raw.TensorListStack, element_shape=scalar, element_dtype=tf.float32)
    reserved = raw.TensorListReserve(element_shape=scalar, num_elements=2, element_dtype=tf.float32)
    resized = raw.TensorListResize(input_handle=reserved, size=3)
    y = stack(input_handle=made) * [1.0, 10.0, 100.0]
    with tf.Session() as session:
        return [
            session.run(stack(input_handle=reserved)),
            session.run(raw.TensorListLength(input_handle=resized)),
            session.run(tf.gradients(y, x)[0]),
        ]


@stacks("A stack gives the last first; an empty one refuses.")
def last_first(tf: Any) -> Any:
    raw = tf.raw_ops
    stack = raw.StackV2(max_size=2, elem_type=tf.float32, stack_name="s")
    with tf.control_dependencies([raw.StackPushV2(handle=stack, elem=[1.0, 2.0])]):
        second = raw.StackPushV2(handle=stack, elem=[3.0])
    with tf.control_dependencies([second]):
        top = raw.StackPopV2(handle=stack, elem_type=tf.float32)
    with tf.control_dependencies([top]):
        below = raw.StackPopV2(handle=stack, elem_type=tf.float32)
    with tf.control_dependencies([below]):
        none = raw.StackPopV2(handle=stack, elem_type=tf.float32)
    with tf.Session() as session:
        return [
            session.run([top, below]),
            error(lambda: session.run(none)),
        ]


# ---- variables


@resources("A gather of what was just assigned reads a resource variable without the change.")
def gathers_of_assignments(tf: Any) -> Any:
    found = []
    for gather in (
        lambda x: tf.gather(x, [0]),
        lambda x: tf.gather_nd(x, [[0]]),
        lambda x: x[0],
        lambda x: tf.identity(x),
    ):
        for use_resource in (True, False):
            with tf.Graph().as_default():
                v = tf.Variable([1.0, 2.0], use_resource=use_resource)
                read = gather(tf.assign_add(v, [5.0, 5.0]))
                with _started(tf) as session:
                    found.append([session.run(read), session.run(v)])
    return found


@resources("A handle says type and shape; a destroyed variable is gone.")
def handles(tf: Any) -> Any:
    raw = tf.raw_ops
    v = tf.Variable([1.0, 2.0], use_resource=True, name="v")
    destroy = raw.DestroyResourceOp(resource=v.handle)
    shape = raw.VariableShape(input=v.handle)
    with _started(tf) as session:
        return [
            session.run([shape, tf.is_variable_initialized(v)]),
            error(lambda: raw.ReadVariableOp(resource=v.handle, dtype=tf.int32)),
            session.run(destroy),
            error(lambda: session.run(v)),
            error(lambda: session.run(destroy)),
            session.run(raw.DestroyResourceOp(resource=v.handle, ignore_lookup_error=True)),
            v.handle.op.type,
        ]


@resources("Rows are set, added, multiplied and compared in place; none out of bounds.")
def scattered_rows(tf: Any) -> Any:
    found = []
    for use_resource in (True, False):
        v = tf.Variable([[1.0], [2.0], [3.0]], use_resource=use_resource)
        with _started(tf) as session:
            for call in (
                tf.scatter_update,
                tf.scatter_add,
                tf.scatter_sub,
                tf.scatter_mul,
                tf.scatter_div,
                tf.scatter_min,
                tf.scatter_max,
            ):
                session.run(call(v, [0, 2], [[2.0], [4.0]]))
                found.append(session.run(v).ravel())
            found.append(error(lambda: session.run(tf.scatter_add(v, [3], [[1.0]]))))
            found.append(error(lambda: session.run(tf.scatter_add(v, [0], [[1.0, 2.0]]))))
    return found


@resources("A counter gives what it was, and refuses at its limit.")
def counters(tf: Any) -> Any:
    found = []
    for use_resource in (True, False):
        v = tf.Variable(0, use_resource=use_resource)
        count = v.count_up_to(2)
        with _started(tf) as session:
            found.append([int(session.run(count)) for _ in range(2)])
            found.append(error(lambda: session.run(count)))
    return found


@dense("Assignments check shapes unless told not to, and give the new value.")
def assignments(tf: Any) -> Any:
    v = tf.Variable([0.0, 0.0], use_resource=False)
    free = tf.Variable([0.0, 0.0], use_resource=False, validate_shape=False)
    with _started(tf) as session:
        return [
            session.run(tf.assign(v, [1.0, 2.0])),
            session.run(tf.assign_add(v, [1.0, 1.0])),
            session.run(tf.assign_sub(v, [5.0, 5.0])),
            error(lambda: tf.assign(v, [1.0, 2.0, 3.0])),
            session.run(tf.assign(free, [1.0, 2.0, 3.0], validate_shape=False)),
            session.run(free).shape,
            error(lambda: tf.assign(v, [1, 2])),
        ]


@references("A temporary variable lives for a step, and is destroyed by name.")
def temporary_variables(tf: Any) -> Any:
    raw = tf.raw_ops
    if not hasattr(raw, "TemporaryVariable"):
        return None
    made = raw.TemporaryVariable(shape=[1, 2], dtype=tf.float32, var_name="temp")
    first = tf.assign(made, [[4.0, 5.0]])
    second = tf.assign_add(first, [[6.0, 7.0]])
    final = raw.DestroyTemporaryVariable(ref=second, var_name="temp")
    with tf.Session() as session:
        return [session.run(final), session.run(final)]


@references("A reference is read where it is used, and fetched as its value.")
def references_read(tf: Any) -> Any:
    v = tf.Variable([1.0], use_resource=False, name="v")
    assigned = tf.assign(v, [2.0])
    with _started(tf) as session:
        return [
            v.dtype.name,
            v.value().dtype.name,
            assigned.dtype.name,
            session.run(assigned),
            session.run("v:0"),
            session.run(v * 3.0, {v: [5.0]}),
            np.asarray(session.run(v.read_value())),
        ]


@parts("Variables are cut by a partitioner along one axis, and read as a whole.")
def cut_variables(tf: Any) -> Any:
    found = []
    for partitioner in (
        tf.fixed_size_partitioner(3),
        tf.variable_axis_size_partitioner(16),
        tf.min_max_variable_partitioner(max_partitions=4, min_slice_size=8),
        tf.fixed_size_partitioner(2, axis=1),
    ):
        with tf.Graph().as_default():
            v = tf.get_variable(
                "v", [4, 3], initializer=tf.ones_initializer(), partitioner=partitioner
            )
            pieces = list(v)
            with _started(tf) as session:
                found.append([x.shape.as_list() for x in pieces])
                found.append([pieces[0].name, session.run(tf.convert_to_tensor(v)).shape])
    return found


@parts("Parts that a partitioner cannot give are refused.")
def refused_parts(tf: Any) -> Any:
    def made(name: str, partitioner: Any) -> Any:
        return error(lambda: len(list(tf.get_variable(name, [4, 3], partitioner=partitioner))))

    return [
        made("a", lambda shape, dtype: [2, 2]),
        made("b", lambda shape, dtype: [1]),
        made("c", lambda shape, dtype: 3),
        made("d", lambda shape, dtype: [0, 1]),
        made("e", 3),
        error(lambda: tf.fixed_size_partitioner(0)(tf.TensorShape([4]), tf.float32)),
        error(lambda: tf.variable_axis_size_partitioner(0)),
    ]
