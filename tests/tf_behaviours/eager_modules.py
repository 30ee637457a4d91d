"""tf.Module: names, and what a module tracks."""

# ruff: noqa: SLF001 - programs are written as users write them

from __future__ import annotations

import functools
from typing import Any

from shown_values import value
from tf_behaviours.registry import behaviour, error

modules = functools.partial(behaviour, "python/module/module_test.py")


def _scope(tf: Any) -> str:
    with tf.name_scope("x") as name:
        return str(name)


def _tree(tf: Any, depth: int, trainable: bool = True) -> Any:
    class Badger(tf.Module):  # type: ignore[misc]
        def __init__(self, depth: int) -> None:
            super().__init__(name="badger")
            with self.name_scope:
                self.child = Badger(depth - 1) if depth > 1 else None
                self.w = tf.Variable(1.0, trainable=trainable, name="mushroom")

    return Badger(depth)


@modules("A module has a name, by its class where none is given, and a scope of that name.")
def names(tf: Any) -> Any:
    class SomeLayer(tf.Module):  # type: ignore[misc]
        pass

    with tf.name_scope("outer"):
        inner = tf.Module(name="inner")
    return [
        tf.Module(name="simple").name,
        tf.Module(name="simple").name_scope.name,
        tf.Module().name,
        SomeLayer().name,
        SomeLayer().name_scope.name,
        inner.name,
        inner.name_scope.name,
        error(lambda: tf.Module(name="$no"), "is not a valid module name"),
        error(lambda: tf.Module(name="a b")),
    ]


@modules("Methods enter the scope where they are told so, also for submodules made late.")
def scopes_of_methods(tf: Any) -> Any:
    class Tree(tf.Module):  # type: ignore[misc]
        def __init__(self, name: Any = None) -> None:
            super().__init__(name=name)
            self.leaves: list[Any] = []

        @tf.Module.with_name_scope
        def leaf(self) -> Any:
            self.leaves.append(Tree())
            return self.leaves[-1]

        @tf.Module.with_name_scope
        def scope(self) -> str:
            return _scope(tf)

        def bare(self) -> str:
            return _scope(tf)

    tree = Tree()
    leaf = tree.leaf()
    return [
        tree.name_scope.name,
        leaf.name_scope.name,
        [tree.scope() for _ in range(2)],
        tree.bare(),
        leaf.scope(),
        list(tree.submodules) == [leaf],
    ]


@modules("Nested modules name variables by their scopes, and are not numbered eagerly.")
def names_of_variables(tf: Any) -> Any:
    one, two = _tree(tf, 3), _tree(tf, 2)
    return [
        one.w.name,
        one.child.w.name,
        one.child.child.w.name,
        two.w.name,
        two.child.name_scope.name,
    ]


@modules("Variables come own ones first, then those of children; frozen ones are not trainable.")
def tracked_variables(tf: Any) -> Any:
    tree, frozen = _tree(tf, 3), _tree(tf, 2, trainable=False)
    return [
        [v.name for v in tree.variables],
        len(tree.child.variables),
        len(tree.trainable_variables),
        len(frozen.trainable_variables),
        len(frozen.non_trainable_variables),
        len(frozen.variables),
        type(tree.variables).__name__,
    ]


@modules("Submodules are found in lists, tuples, dicts and named tuples, each once.")
def tracked_submodules(tf: Any) -> Any:
    root, a, b, c = (tf.Module(name=n) for n in ("root", "a", "b", "c"))
    root.z = [a, (b,)]
    root.d = {"k": c, "a": a}
    b.v = tf.Variable(1.0, name="v")
    return [
        [m.name for m in root.submodules],
        [v.name for v in root.variables],
        type(root.submodules).__name__,
    ]


@modules("Properties that raise are not read; an error in the constructor closes the scope.")
def properties_and_errors(tf: Any) -> Any:
    class Fails(tf.Module):  # type: ignore[misc]
        @property
        def bad(self) -> Any:
            raise AssertionError

        def __call__(self) -> Any:
            with self.name_scope:
                raise KeyError

    class Breaks(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            raise KeyError

    found = Fails()
    found.v = tf.Variable(1.0)
    return [len(found.variables), error(Breaks), error(found), _scope(tf)]


@modules("A module's name scope is one object.")
def scopes_are_kept(tf: Any) -> Any:
    module = tf.Module(name="m")
    return [module.name_scope is module.name_scope, module.name_scope.name]


@modules("Functions of a module enter its scope in their traces.")
def scopes_in_functions(tf: Any) -> Any:
    class Dense(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.w = None

        @tf.function
        @tf.Module.with_name_scope
        def __call__(self, x: Any) -> Any:
            if self.w is None:
                self.w = tf.Variable(tf.ones([2, 2]), name="w")
            return tf.matmul(x, self.w), _scope(tf)

    dense = Dense()
    y, name = dense(tf.ones([1, 2]))
    return [value(y), value(name), dense.w.name]


@modules("Properties that are named as ignored are not walked through.")
def ignored_properties(tf: Any) -> Any:
    class Dangerous(tf.Module):  # type: ignore[misc]
        _TF_MODULE_IGNORED_PROPERTIES = frozenset(
            ("skipped", "other", *tf.Module._TF_MODULE_IGNORED_PROPERTIES)
        )

    module = Dangerous()
    module.skipped, module.other = tf.Module(), tf.Variable(1.0)
    module.kept = tf.Variable(2.0)
    return [len(module.submodules), len(module.variables)]


@modules("Variables are found in the order of sorted attributes, whatever holds them.")
def order_of_attributes(tf: Any) -> Any:
    module = tf.Module()
    module.b = [tf.Variable(1.0, name="b0"), {"z": tf.Variable(1.0, name="bz")}]
    module.a = tf.Variable(1.0, name="a")
    module.c = tf.Module()
    module.c.a = tf.Variable(1.0, name="ca")
    module.aa = module.a
    return [v.name for v in module.variables]


@modules("Initialisers of a module's variables may depend on others, and repr names the class.")
def representations(tf: Any) -> Any:
    class Named(tf.Module):  # type: ignore[misc]
        pass

    return [repr(Named()).split(" ")[0].rpartition(".")[2]]
