"""Variables of the TF2 shape."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np

from eager.behaviours.registry import error, program


@program
def assignment_to_a_slice(tf: Any) -> Any:
    v = tf.Variable([1.0, 2.0, 3.0, 4.0])
    found = [type(v[1].assign(9.0)).__name__, v.numpy()]
    v[2:].assign([7.0, 8.0])
    found.append(v.numpy())
    m = tf.Variable([[1, 2], [3, 4]])
    m[0, 1].assign(5)
    m[:, 0].assign([8, 9])
    found.append(m.numpy())

    @tf.function
    def f() -> Any:
        v[0].assign(100.0)
        return v.read_value()

    return [*found, f(), error(lambda: v[0].assign([1.0, 2.0])), error(lambda: v[0].assign("a"))]


@program
def a_cast_to_its_own_type_is_the_variable(tf: Any) -> Any:
    v = tf.Variable([0.75, -2.0], dtype=tf.float64)
    same, other = tf.cast(v, tf.float64), tf.cast(v, tf.float32)
    v.assign_sub(same)
    with tf.distribute.MirroredStrategy(["/cpu:0"]).scope():
        mirrored = tf.Variable([1.0])
    read = tf.cast(mirrored, tf.float32)
    mirrored.assign([2.0])
    return [same is v, same.numpy(), other.numpy(), read is mirrored, read.numpy()]


@program
def walking_over(tf: Any) -> Any:
    v = tf.Variable([1.0, 2.0])
    found = [error(lambda: [x.numpy() for x in v])]
    found.append(error(lambda: list(tf.Variable(1.0))))
    found.append(error(lambda: len(v)))
    found.append(error(lambda: 1.0 in v))
    return found


@program
def shapes_of_variables(tf: Any) -> Any:
    v = tf.Variable([1.0], shape=tf.TensorShape([None]))
    v.assign([1.0, 2.0])
    w = tf.Variable(1.0, shape=tf.TensorShape(None))
    w.assign([[3.0]])
    return [
        v,
        str(v.shape),
        w,
        str(w.shape),
        error(lambda: tf.Variable(1.0, shape=[2])),
        error(lambda: tf.Variable([1.0, 2.0], shape=[2])),
        error(lambda: tf.Variable([1.0]).assign([1.0, 2.0])),
        error(lambda: v.assign([[1.0]])),
        error(lambda: tf.Variable(1.0).assign("a")),
        error(lambda: tf.Variable(1).assign(1.5)),
        error(lambda: tf.Variable(1.0).assign(1)),
        error(lambda: tf.Variable(1.0).assign(np.float64(1))),
        error(lambda: tf.Variable(1.0).assign(tf.constant(1))),
        error(lambda: tf.Variable([1.0, 2.0]).assign_add([1.0])),
        error(lambda: tf.Variable()),
        error(lambda: tf.Variable(None)),
        error(lambda: tf.Variable(1.0, dtype=tf.int32)),
        error(lambda: tf.Variable(1, dtype=tf.float32)),
        error(lambda: tf.Variable(np.ones(2))),
        error(lambda: tf.Variable("abc")),
        error(lambda: tf.Variable(lambda: tf.ones([2]))),
        error(lambda: tf.Variable(tf.Variable(3.0))),
    ]


@program
def variables_print(tf: Any) -> Any:
    found = []
    for v in (
        tf.Variable(1.0),
        tf.Variable([1, 2], name="w"),
        tf.Variable("s"),
        tf.Variable([[1.5, 2.0]], trainable=False),
        tf.Variable(True),
        tf.Variable(1.0, shape=tf.TensorShape(None)),
    ):
        found += [repr(v), str(v), f"{v}"]
    held = []

    @tf.function
    def f() -> Any:
        held.extend([repr(v), str(v)])
        return v.read_value()

    f()
    return found + held


@program
def attributes_of_variables(tf: Any) -> Any:
    v = tf.Variable([1.0, 2.0], name="w", constraint=tf.nn.relu)
    return [
        v.name,
        str(v.shape),
        repr(v.dtype),
        v.trainable,
        str(v.device),
        str(v.synchronization),
        str(v.aggregation),
        v.constraint is tf.nn.relu,
        error(lambda: v.op),
        error(lambda: v.graph),
        error(lambda: v.initializer),
        error(lambda: v.initial_value),
        error(lambda: v.eval()),
        error(lambda: v.initialized_value()),
        error(lambda: v.is_initialized()),
        error(lambda: v.load([3.0, 4.0])),
        type(v).__name__,
        error(lambda: hash(v)),
        error(lambda: v.get_shape().as_list()),
        error(lambda: v.handle.dtype.name),
        error(lambda: v.value()),
        error(lambda: v.sparse_read([0])),
        error(lambda: v.count_up_to(3)),
        error(lambda: v.scatter_update(tf.IndexedSlices([5.0], [0]))),
        error(lambda: v.scatter_nd_add([[0]], [1.0])),
        error(lambda: v.gather_nd([[1]])),
        error(lambda: v.batch_scatter_update(tf.IndexedSlices([5.0], [0]))),
        error(lambda: v.to_proto()),
        error(lambda: isinstance(v, tf.Variable)),
        error(lambda: v.ndim),
        error(lambda: v.experimental_ref().deref() is v),
        error(lambda: v.ref().deref() is v),
        error(lambda: v.assign([0.0, 0.0], read_value=False)),
    ]


@program
def copies_and_pickles(tf: Any) -> Any:
    v = tf.Variable([1.0, 2.0], name="w", trainable=False)
    c = copy.deepcopy(v)
    v.assign([3.0, 4.0])
    shallow = copy.copy(v)
    found = [c, c.name, c.trainable, v, error(lambda: shallow.assign([0.0, 0.0])), v]
    found.append(error(lambda: pickle.loads(pickle.dumps(v))))
    found.append(error(lambda: pickle.loads(pickle.dumps(tf.constant([1, 2])))))
    found.append(error(lambda: copy.deepcopy(tf.constant([1, 2]))))
    found.append(error(lambda: copy.deepcopy({"a": [v, v]})["a"][0]))
    made = copy.deepcopy([v, v])
    found.append(made[0] is made[1])

    class Model(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.v = tf.Variable(1.0)

    m = Model()
    n = copy.deepcopy(m)
    n.v.assign(2.0)
    return [*found, m.v, n.v]


@program
def refs(tf: Any) -> Any:
    a, b = tf.Variable(1.0), tf.Variable(2.0)
    refs = [a.ref(), b.ref()]
    return [
        error(lambda: len(sorted(refs))),
        error(lambda: {a.ref(): 1}[a.ref()]),
        error(lambda: a.ref() == a.ref()),
        error(lambda: a.ref() == b.ref()),
        error(lambda: a.ref() == a),
        error(lambda: refs[0] < refs[1] or refs[1] < refs[0]),
        error(lambda: repr(tf.constant(1).ref()).partition("(")[0]),
        error(lambda: sorted([tf.constant(1).ref(), tf.constant(2).ref()]) is not None),
        error(lambda: refs[0] < 3),
        error(lambda: len(dict(sorted({a.ref(): 1, b.ref(): 2}.items())))),
    ]


@program
def name_scopes(tf: Any) -> Any:
    found = []
    with tf.name_scope("a") as s:
        found.append(s)
        with tf.name_scope("b") as t:
            found.append(t)
            found.append(tf.Variable(1.0, name="v").name)
        scope = tf.name_scope("c")
        found.append(scope.name)
        with scope as u:
            found.append(u)
        with scope as u:
            found.append(u)
    found.append(tf.name_scope("x/").name)
    found.append(error(lambda: tf.name_scope(None)))
    found.append(error(lambda: tf.name_scope(3)))
    found.append(error(lambda: tf.name_scope("")))
    found.append(tf.Variable(1.0).name)

    @tf.function
    def f() -> Any:
        with tf.name_scope("a") as s:
            x = tf.constant(1.0, name="k")
            found.extend([s, x.name])
        with tf.name_scope("a") as s:
            found.append(s)
        return x

    f()
    return found


@program
def variable_creators(tf: Any) -> Any:
    seen = []

    def creator(following: Any, **kwargs: Any) -> Any:
        seen.append(sorted(kwargs))
        kwargs["name"] = "made"
        return following(**kwargs)

    with tf.variable_creator_scope(creator):
        v = tf.Variable(1.0, name="asked")

    order = []

    def outer(following: Any, **kwargs: Any) -> Any:
        order.append("outer")
        return following(**kwargs)

    def inner(following: Any, **kwargs: Any) -> Any:
        order.append("inner")
        return following(**kwargs)

    with tf.variable_creator_scope(outer), tf.variable_creator_scope(inner):
        tf.Variable(1.0)

    values = []

    def values_creator(following: Any, **kwargs: Any) -> Any:
        values.append({k: str(x) for k, x in kwargs.items() if k not in ("initial_value",)})
        return following(**kwargs)

    with tf.variable_creator_scope(values_creator):
        tf.Variable(2.0, trainable=False)
    return [seen, v.name, order, values]


@program
def a_creator_that_asks_for_on_read(tf: Any) -> Any:
    def creator(following: Any, **kwargs: Any) -> Any:
        kwargs["synchronization"] = tf.VariableSynchronization.ON_READ
        kwargs["aggregation"] = tf.VariableAggregation.SUM
        return following(**kwargs)

    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope(), tf.variable_creator_scope(creator):
        v = tf.Variable(1.0, trainable=True)
        w = tf.Variable(1.0)
    strategy.run(lambda: v.assign_add(1.0))
    with tf.variable_creator_scope(creator):
        plain = tf.Variable(1.0)
    return [
        type(v).__name__,
        str(v.synchronization),
        v.trainable,
        v.read_value(),
        w.trainable,
        str(plain.synchronization),
        plain.trainable,
        error(
            lambda: tf.Variable(
                1.0, synchronization=tf.VariableSynchronization.ON_READ, trainable=True
            )
        ),
        tf.Variable(1.0, synchronization=tf.VariableSynchronization.ON_READ).trainable,
    ]


@program
def arithmetic(tf: Any) -> Any:
    v = tf.Variable([1.0, 2.0])
    return [
        v + 1,
        1 - v,
        v * v,
        v / 2,
        v**2,
        -v,
        abs(v),
        v > 1,
        v.numpy(),
        np.array(v),
        tf.reduce_sum(v),
        v[0],
        v[-1:],
        error(lambda: v + tf.Variable(1)),
        error(lambda: bool(v)),
        error(lambda: float(tf.Variable(2.0))),
        error(lambda: int(tf.Variable(2))),
        error(lambda: [1, 2][tf.Variable(1)]),
    ]


@program
def initializers(tf: Any) -> Any:
    tf.random.set_seed(1)
    c = tf.constant_initializer
    return [
        c(3)([2]),
        c(3)([2], tf.int32),
        c([1, 2])([2]),
        c([1.0, 2.0])([2], tf.float64),
        error(lambda: c([1, 2])([3])),
        error(lambda: c([1, 2, 3])([2])),
        error(lambda: c([1])([3])),
        c(3.0)([]),
        tf.zeros_initializer()([2]),
        tf.ones_initializer()([1], tf.int32),
        tf.initializers.Constant(2)([1]),
        tf.random_uniform_initializer(seed=1)([2]),
        tf.random_normal_initializer(seed=1)([2]),
        tf.initializers.GlorotUniform(seed=1)([2, 2]),
        tf.initializers.HeNormal(seed=1)([2, 2]),
        tf.initializers.Orthogonal(seed=1)([2, 2]),
        tf.initializers.VarianceScaling(seed=1)([2, 2]),
        tf.initializers.Identity()([2, 2]),
        error(lambda: tf.initializers.TruncatedNormal(seed=1)([2])),
        c(3).get_config(),
        tf.zeros_initializer().get_config(),
        tf.random_normal_initializer(seed=1).get_config(),
    ]


@program
def rows_assigned_in_batches(tf: Any) -> Any:
    v = tf.Variable([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    rows = tf.IndexedSlices(tf.constant([[10.0], [20.0]]), tf.constant([[2], [0]]))
    v.batch_scatter_update(rows)
    w = tf.Variable([1.0, 2.0])
    one = tf.IndexedSlices(tf.constant([7.0]), [1])
    return [
        v.numpy().tolist(),
        w.batch_scatter_update(one).numpy().tolist(),
        error(lambda: w.batch_scatter_update(3))[:1],
    ]


@program
def counters_of_other_types(tf: Any) -> Any:
    def counted() -> Any:
        return tf.Variable(1.5).count_up_to(3)

    return [error(counted)[:1], error(lambda: tf.bitwise.invert(1.5))[:1]]
