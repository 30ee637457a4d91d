"""What goes wrong on a worker, and that the next operations do not mind."""

from __future__ import annotations

from typing import Any

from eager_programs.registry import W0, W1, Cluster, program


@program()
def an_operation_fails_on_a_worker(tf: Any, at: Cluster) -> Any:
    def fail() -> Any:
        with tf.device(W0):
            return tf.gather(tf.constant([1.0, 2.0]), tf.constant(5)).numpy()

    def work() -> Any:
        with tf.device(W0):
            return (tf.constant(1.0) + 1.0).numpy()

    return [at.attempt(fail, "5 is not in [0, 2)"), work(), at.attempt(fail), work()]


@program()
def classes_of_errors(tf: Any, at: Cluster) -> Any:
    def at_w0(call: Any, *words: str) -> Any:
        with tf.device(W0):
            return at.attempt(lambda: call().numpy(), *words)

    return [
        at_w0(lambda: tf.linalg.inv(tf.ones([2, 3]))),
        at_w0(lambda: tf.matmul(tf.ones([2, 3]), tf.ones([2, 3]))),
        at_w0(lambda: tf.constant(1) // tf.constant(0)),
        at_w0(lambda: tf.reshape(tf.ones([4]), [3])),
        at_w0(lambda: tf.debugging.check_numerics(tf.constant([1.0]) / 0.0, "so it is"), "so it"),
        at_w0(lambda: tf.strings.to_number(tf.constant("x")), "x"),
        at_w0(lambda: tf.concat([tf.ones([2, 2]), tf.ones([3, 3])], 0)),
    ]


@program()
def what_depends_on_a_failed_operation_fails(tf: Any, at: Cluster) -> Any:
    with tf.device(W0):
        good = tf.constant([1.0]) + 1.0
    good.numpy()

    def fail() -> Any:
        with tf.device(W0):
            bad = tf.gather(tf.constant([1.0]), tf.constant(9))
            after = bad + 1.0
        with tf.device(W1):
            return (after * 2.0).numpy()

    return [at.attempt(fail)["error"] != "", good.numpy()]


@program()
def a_function_fails_on_a_worker(tf: Any, at: Cluster) -> Any:
    @tf.function
    def f(x: Any, i: Any) -> Any:
        with tf.device(W0):
            y = x * 2.0
        with tf.device(W1):
            return tf.gather(y, i)

    x = tf.constant([1.0, 2.0])
    return [
        f(x, tf.constant(1)).numpy(),
        at.attempt(lambda: f(x, tf.constant(7)), "is not in [0, 2)"),
        f(x, tf.constant(0)).numpy(),
    ]


@program()
def an_assertion_fails_in_a_function(tf: Any, at: Cluster) -> Any:
    @tf.function
    def f(x: Any) -> Any:
        tf.debugging.Assert(x > 0, ["x must be positive:", x])
        return x * 2

    with tf.device(W0):
        return [
            at.attempt(lambda: f(tf.constant(3))),
            at.attempt(lambda: f(tf.constant(-3)), "x must be positive:", "-3"),
            at.attempt(lambda: f(tf.constant(4))),
        ]


@program()
def assertions_stand_where_they_are_made(tf: Any, at: Cluster) -> Any:
    with tf.device(W0):
        x = tf.constant([1, -1])
        return [
            x.device,
            tf.zeros([2]).backing_device,
            at.attempt(lambda: tf.debugging.assert_equal(x, 1), "Condition x == y did not hold"),
            at.attempt(lambda: tf.debugging.assert_positive(x), "Condition x > 0 did not hold"),
            at.attempt(lambda: tf.debugging.Assert(tf.reduce_all(x > 0), ["as told"]), "as told"),
            (x + 1).numpy(),
        ]


@program(["tensorflow"])
def a_variable_refuses_other_shapes(tf: Any, at: Cluster) -> Any:
    with tf.device(W0):
        v = tf.Variable([1.0, 2.0])

    @tf.function(input_signature=[tf.TensorSpec(None, tf.float32)])
    def grow(x: Any) -> Any:
        tf.raw_ops.AssignAddVariableOp(resource=v.handle, value=x)
        return v.read_value()

    return [at.attempt(lambda: grow(tf.ones([3]))), grow(tf.ones([2])).numpy()]


@program()
def nothing_is_lost_in_asynchronous_execution(tf: Any, at: Cluster) -> Any:
    tf.config.experimental.set_synchronous_execution(False)
    try:
        with tf.device(W0):
            x = tf.constant(1.0) + 1.0
            for _ in range(20):
                x = x + 1.0
            v = tf.Variable(5.0)
            v.assign_add(x)
        return [x.numpy(), v.numpy(), tf.config.experimental.get_synchronous_execution()]
    finally:
        tf.config.experimental.set_synchronous_execution(True)


@program()
def an_error_comes_out_of_an_asynchronous_scope(tf: Any, at: Cluster) -> Any:
    found = []
    try:
        with tf.experimental.async_scope(), tf.device(W0):
            tf.gather(tf.constant([1.0]), tf.constant(9))
    except tf.errors.OpError as error:
        found.append(type(error).__name__)
    tf.experimental.async_clear_error()
    with tf.device(W0):
        return [*found, (tf.constant(2.0) * 3.0).numpy()]


@program(["tensorflow"])
def inputs_of_other_types(tf: Any, at: Cluster) -> Any:
    """Arrays, handles and variants where an op takes one of the others: each is refused alike."""
    from tensorflow.python.eager import context, execute  # noqa: PLC0415  (calls any op as told)

    raw = tf.raw_ops
    float_, int_ = (tf.dtypes.as_dtype(name).as_datatype_enum for name in ("float32", "int32"))
    with tf.device(W1):
        handle = raw.VarHandleOp(dtype=tf.float32, shape=[], shared_name=at.name)
        raw.AssignVariableOp(resource=handle, value=tf.constant(1.0))
        dataset = raw.TensorDataset(components=[tf.constant(1.0)], output_shapes=[[]])
        values = {
            "float": tf.constant(1.5),
            "int": tf.constant(2),
            "string": tf.constant("a"),
            "handle": handle,
            "queue": raw.FIFOQueueV2(component_types=[tf.float32], shared_name=f"{at.name}/q"),
            "dataset": dataset,
            "list": raw.EmptyTensorList(
                element_shape=tf.constant([], tf.int32),
                max_num_elements=tf.constant(2),
                element_dtype=tf.float32,
            ),
            "optional": raw.OptionalFromValue(components=[tf.constant(1.0)]),
        }
    calls: list[tuple[str, int, list[str], tuple[Any, ...]]] = [
        ("AddV2", 1, ["float", "float"], ("T", float_)),
        ("Neg", 1, ["float"], ("T", float_)),
        ("MatMul", 1, ["float", "float"], ("T", float_)),
        ("Reshape", 1, ["float", "int"], ("T", float_, "Tshape", int_)),
        ("StringLength", 1, ["string"], ()),
        ("StringJoin", 1, ["string", "string"], ("N", 2)),
        ("StringToNumber", 1, ["string"], ("out_type", float_)),
        ("ReadVariableOp", 1, ["handle"], ("dtype", float_)),
        ("AssignVariableOp", 0, ["handle", "float"], ("dtype", float_)),
        ("VariableShape", 1, ["handle"], ()),
        ("VarIsInitializedOp", 1, ["handle"], ()),
        ("DestroyResourceOp", 0, ["handle"], ()),
        ("QueueEnqueueV2", 0, ["queue", "float"], ("Tcomponents", [float_])),
        ("QueueSizeV2", 1, ["queue"], ()),
        ("TensorListLength", 1, ["list"], ()),
        ("TensorListPushBack", 1, ["list", "float"], ("element_dtype", float_)),
        ("OptionalHasValue", 1, ["optional"], ()),
        ("DatasetCardinality", 1, ["dataset"], ()),
        ("Shape", 1, ["float"], ("T", float_)),
        ("Rank", 1, ["float"], ("T", float_)),
        ("Pack", 1, ["float", "float"], ("N", 2, "T", float_)),
        ("Cast", 1, ["float"], ("SrcT", float_, "DstT", int_)),
        ("Identity", 1, ["float"], ("T", float_)),
    ]
    found = {}
    for op, count, right, attrs in calls:
        for place, one in enumerate(right):
            for name in values:
                if name == one or _KINDS.get(name, name) == _KINDS.get(one, one):
                    continue
                given = [*right[:place], name, *right[place + 1 :]]
                inputs = [values[kind] for kind in given]

                def call(
                    op: str = op, count: int = count, inputs: Any = inputs, a: Any = attrs
                ) -> Any:
                    with tf.device(W1):
                        execute.execute(op.encode(), count, inputs, a, context.context(), None)
                        context.async_wait()

                found[f"{op} of {given}"] = at.attempt(call)
    return found


# Which of the values are of one type.
_KINDS = {"handle": "resource", "queue": "resource", "dataset": "variant", "list": "variant",
          "optional": "variant"}  # fmt: skip
