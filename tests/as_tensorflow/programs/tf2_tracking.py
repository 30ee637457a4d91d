"""Objects that follow others by TensorFlow's protocol, as libraries write them."""

# ruff: noqa: B023, RUF005 - programs are written as users write them

import copy
import os
import pickle
import tempfile

import tensorflow as tf
from tensorflow.python.trackable import base, data_structures
from tensorflow.python.trackable.autotrackable import AutoTrackable


def attempt(what, function):
    try:
        print(what, function())
    except Exception as error:
        print(what, type(error).__name__, str(error).splitlines()[0][:40])


def names(root):
    with tempfile.TemporaryDirectory() as folder:
        path = tf.train.Checkpoint(root).write(os.path.join(folder, "c"))
        found = [name for name, _ in tf.train.list_variables(path)]
    return [name for name in found if not name.startswith("_CHECKPOINTABLE")]


class Counter(base.Trackable):
    """Keeps a number that is no variable."""

    def __init__(self, number):
        self.number = number
        self.text = "t"

    def _serialize_to_tensors(self):
        return {"number": tf.constant(self.number), "text": tf.constant(self.text)}

    def _restore_from_tensors(self, restored):
        self.number = int(restored["number"])
        self.text = restored["text"].numpy().decode() + "!"


class Own(base.Trackable):
    """Says itself what it holds."""

    def __init__(self):
        self.v = tf.Variable(1.0)

    def _trackable_children(self, save_type="checkpoint", **kwargs):
        return {**super()._trackable_children(save_type, **kwargs), "mine": self.v}


holder = AutoTrackable()
holder.counter = Counter(4)
holder.own = Own()
holder.own._track_trackable(tf.Variable(2), name="more")
print(names(holder))
attempt("twice", lambda: holder.own._track_trackable(tf.Variable(2), name="more"))
attempt("no trackable", lambda: holder.own._track_trackable(3, name="number"))
holder.own._track_trackable(tf.Variable(3), name="more", overwrite=True)
print(sorted(holder._trackable_children()), int(holder.own._lookup_dependency("more")))
print(holder._lookup_dependency("nothing"))
with tempfile.TemporaryDirectory() as folder:
    path = tf.train.Checkpoint(holder).write(os.path.join(folder, "c"))
    into = AutoTrackable()
    status = tf.train.Checkpoint(into).read(path)
    into.counter = Counter(0)
    print(into.counter.number, into.counter.text)
    into.own = Own()
    into.own.v.assign(7.0)
    tf.train.Checkpoint(into).read(path).expect_partial()
    print(float(into.own.v), into.counter.number)

# ---- attributes

thing = AutoTrackable()
thing.v = tf.Variable(1.0)
thing.v = None
print(names(thing), thing.v)
thing.v = tf.Variable(2.0)
del thing.v
print(names(thing), hasattr(thing, "v"))
thing.plain = data_structures.NoDependency([tf.Variable(1.0)])
print(names(thing), type(thing.plain).__name__)
thing.pair = (tf.Variable(1.0), {"a": tf.Variable(2.0)})
print(names(thing), isinstance(thing.pair, tuple))
thing.numbers = (1, 2)
print(type(thing.numbers).__name__, sorted(thing._trackable_children()))


class Layer(tf.Module):
    @base.no_automatic_dependency_tracking
    def hide(self):
        self.hidden = [tf.Variable(1.0)]


layer = Layer()
layer.hide()
print(type(layer.hidden).__name__, names(layer), len(layer.variables))
layer.hidden = layer.hidden
print(names(layer))
layer.shown = layer.hidden
print(type(layer.shown).__name__, names(layer))

# ---- lists and dicts

module = tf.Module()
module.list = [1, tf.Variable(1.0)]
module.list.append(tf.Variable(2.0))
module.list += [tf.Variable(3.0), [tf.Variable(4.0)]]
print(type(module.list).__name__, isinstance(module.list, list), names(module))
print([type(one).__name__ for one in module.list][-1], len(module.list), 1 in module.list)
module.list[0] = 5
print(len(names(module)), module.list[0])
module.list.insert(0, 7)
attempt("inserted", lambda: names(module))
module = tf.Module()
module.list = [tf.Variable(1.0), tf.Variable(2.0)]
module.list[0] = tf.Variable(3.0)
attempt("replaced", lambda: names(module))
for change in ("pop", "reverse", "clear"):
    module = tf.Module()
    module.list = [tf.Variable(1.0), tf.Variable(2.0)]
    getattr(module.list, change)()
    attempt(change, lambda: names(module))
module = tf.Module()
module.list = [3, 1, 2]
module.list.sort()
module.list.pop()
print(module.list, names(module), module.list == [1, 2], module.list + [9])
given = [tf.Variable(1.0)]
module = tf.Module()
module.list = given
given.append(tf.Variable(2.0))
attempt("outside", lambda: names(module))
module = tf.Module()
module.dict = {"a": tf.Variable(1.0), "n": 1}
module.dict["b"] = [tf.Variable(2.0)]
module.dict.update(c=tf.Variable(3.0))
print(type(module.dict).__name__, isinstance(module.dict, dict), names(module))
module.dict["a"] = tf.Variable([1, 2])
print(names(module), sorted(module.dict))
del module.dict["c"]
print(names(module))
module.dict[1] = 2
print(len(names(module)), len(module.dict))
module.dict[2] = tf.Variable(1.0)
attempt("key", lambda: names(module))
data = module.list = [[1, 2], {"a": 3}]
print(copy.deepcopy(module.list), pickle.loads(pickle.dumps(module.list)), module.list.copy())
print(data_structures.wrap_or_unwrap([1]), data_structures.wrap_or_unwrap({"a": 1}))
print(isinstance(module.list, data_structures.ListWrapper), repr(module.dict["b"])[:12])
reference = base.TrackableReference("n", 3)
name, ref = reference
print(name, ref, reference == base.TrackableReference("n", 3), tuple(reference))
print([isinstance(one, base.Trackable) for one in (tf.Variable(1), module, module.list, 3, "a")])
print(isinstance(tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, 0), base.Trackable))
print(isinstance(tf.function(lambda: 1), base.Trackable))
view = tf.train.TrackableView(holder)
print(sorted(view.children(holder)), len(view.descendants()), view.root is holder)
with tempfile.TemporaryDirectory() as folder:
    root = tf.train.Checkpoint(a=tf.Variable(1.0), l=[tf.Variable(2.0)], m=tf.Module())
    path = root.save(os.path.join(folder, "new", "folders", "c"))
    view = tf.train.CheckpointView(path)
    print(sorted(view.children(0)), view.descendants())
    other = tf.train.Checkpoint(a=tf.Variable(0.0), l=[tf.Variable(0.0), tf.Variable(0.0)])
    print([type(one).__name__ for one in view.match(other).values()])
    both, only_there, only_here = view.diff(other)
    print(sorted(both), only_there, [type(one).__name__ for one in only_here])
