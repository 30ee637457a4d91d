"""Graphs, their operations and names, and what is imported into them."""

from __future__ import annotations

from typing import Any

from tf_behaviours.registry import behaviour, error

OPS = "python/framework/ops_test.py"
IMPORTER = "python/framework/importer_test.py"
FUNCTION = "python/framework/function_test.py"
META = "python/framework/meta_graph_test.py"
DEVICE = "python/framework/device_test.py"


@behaviour(OPS, "Names are made unique, nest in scopes, and are refused where they are malformed.")
def names(tf: Any) -> Any:
    graph = tf.get_default_graph()
    found = [tf.constant(1, name="a").name for _ in range(3)]
    with tf.name_scope("s") as outer:
        found += [outer, tf.constant(1, name="a").name]
        with tf.name_scope("t"):
            found.append(tf.constant(1, name="a").name)
        with tf.name_scope(outer):
            found.append(tf.constant(1, name="a").name)
        with tf.name_scope(None):
            found.append(tf.constant(1, name="top").name)
        with tf.name_scope(""):
            found.append(tf.constant(1, name="other").name)
    with tf.name_scope("s") as again:
        found.append(again)
    found += [graph.unique_name("a"), graph.unique_name("x"), graph.unique_name("x", False)]
    bad = ("_a", "a b", "-a", "a:0", "")
    return [found, [error(lambda name=name: tf.constant(1, name=name).name) for name in bad]]


@behaviour(OPS, "A graph finds operations and tensors by name, and refuses names of neither.")
def elements(tf: Any) -> Any:
    graph = tf.get_default_graph()
    a = tf.constant(1.0, name="a")
    find = graph.as_graph_element
    return [
        find("a") is a.op,
        find("a:0") is a,
        find(a) is a,
        graph.get_tensor_by_name("a:0") is a,
        graph.get_operation_by_name("a") is a.op,
        error(lambda: find("b")),
        error(lambda: find("a:1")),
        error(lambda: find("a:x")),
        error(lambda: find(3)),
        error(lambda: find("a", allow_operation=False)),
        error(lambda: find("a:0", allow_tensor=False)),
        error(lambda: graph.get_operation_by_name("a:0")),
        error(lambda: graph.get_tensor_by_name("a")),
        error(lambda: graph.get_tensor_by_name(3)),
        error(lambda: find(None)),
    ]


@behaviour(OPS, "Devices of scopes nest, merge, are cleared by None, and may be functions.")
def device_scopes(tf: Any) -> Any:
    found = []
    with tf.device("/job:worker/task:1"):
        found.append(tf.constant(1).device)
        with tf.device("/device:CPU:0"):
            found.append(tf.constant(1).device)
        with tf.device("/job:ps"):
            found.append(tf.constant(1).device)
        with tf.device(None):
            found.append(tf.constant(1).device)
        with tf.device(lambda op: "/device:CPU:7" if op.type == "Const" else None):
            found += [tf.constant(1).device, tf.no_op().device]
    return [*found, error(lambda: tf.device("/nonsense").__enter__())]


@behaviour(OPS, "Control inputs are those of all scopes around, without those that are implied.")
def control_inputs(tf: Any) -> Any:
    a, b = tf.constant(1, name="a"), tf.constant(2, name="b")
    with tf.control_dependencies([a]):
        c = tf.constant(3, name="c")
        with tf.control_dependencies([b, c.op]):
            d = tf.add(a, b, name="d")
        with tf.control_dependencies(None):
            e = tf.constant(5, name="e")
    return [[op.name for op in x.op.control_inputs] for x in (c, d, e)] + [
        error(lambda: tf.control_dependencies([3]).__enter__())
    ]


@behaviour(OPS, "Collections keep what is added, by name and scope, as copies or by reference.")
def collections(tf: Any) -> Any:
    graph = tf.get_default_graph()
    graph.add_to_collection("k", 1)
    graph.add_to_collections(["k", "l", "l"], 2)
    graph.get_collection("k").append(3)
    copy = graph.get_collection("k")
    graph.get_collection_ref("k").append(4)
    with tf.name_scope("s"):
        scoped = tf.constant(1.0, name="a")
    graph.add_to_collection("k", scoped)
    found = [copy, len(graph.get_collection("k")), graph.get_collection("k", "s/")[0] is scoped]
    graph.clear_collection("k")
    return [*found, graph.get_collection("k"), graph.get_collection("l"), graph.collections]


@behaviour(OPS, "A finalized graph refuses operations; its version counts them.")
def finalized(tf: Any) -> Any:
    graph = tf.Graph()
    with graph.as_default():
        before = graph.version
        tf.constant(1)
        after = graph.version
        graph.finalize()
        return [before, after, graph.finalized, error(lambda: tf.constant(2), "finalized")]


@behaviour(OPS, "Operations know inputs, outputs, consumers, attributes and text.")
def operations(tf: Any) -> Any:
    a = tf.constant([1.0], name="a")
    b = tf.add(a, a, name="b")
    return [
        [x.name for x in b.op.inputs],
        [x.name for x in b.op.outputs],
        [op.name for op in a.consumers()],
        b.op.get_attr("T").name,
        error(lambda: b.op.get_attr("nothing")),
        [str(b), repr(b), str(a.dtype), b.value_index],
        repr(b.op),
        b.op.type,
        error(lambda: bool(b)),
        error(lambda: list(tf.placeholder(tf.float32))),
        len({a, b, a}),
        a == a,
        a == b,
    ]


@behaviour(OPS, "Seeds of graphs and operations decide what random operations draw.")
def seeds(tf: Any) -> Any:
    found = []
    for seed in (None, 7):
        for op_seed in (None, 3):
            with tf.Graph().as_default():
                tf.set_random_seed(seed)
                found.append(list(tf.get_seed(op_seed)))
    return found


@behaviour(OPS, "reset_default_graph is refused within a graph's block; colocation copies devices.")
def resets_and_colocation(tf: Any) -> Any:
    with tf.device("/device:CPU:3"):
        a = tf.constant(1.0, name="a")
    with tf.colocate_with(a.op):
        b = tf.constant(2.0, name="b")
    with tf.colocate_with(None, ignore_existing=True):
        c = tf.constant(2.0, name="c")
    return [
        error(tf.reset_default_graph),
        b.op.colocation_groups(),
        a.op.colocation_groups(),
        c.op.colocation_groups(),
        b.device,
    ]


def _graph_def(tf: Any) -> Any:
    with tf.Graph().as_default() as graph:
        a = tf.placeholder(tf.float32, (), name="a")
        tf.multiply(tf.constant(2.0, name="two"), a, name="b")
        return graph.as_graph_def()


@behaviour(IMPORTER, "An import gives what is asked for, under a prefix, with inputs replaced.")
def imports(tf: Any) -> Any:
    definition = _graph_def(tf)
    x = tf.constant(5.0)
    (b,) = tf.import_graph_def(definition, {"a": x}, ["b:0"], name="p")
    op, nothing = tf.import_graph_def(definition, return_elements=["b", "two:0"])
    with tf.Session() as session:
        return [
            session.run(b),
            [b.name, op.name, nothing.name],
            tf.import_graph_def(definition, name="q"),
            tf.import_graph_def(definition, return_elements=["b:0"], name="p")[0].name,
            b.op.inputs[1] is x,
        ]


@behaviour(IMPORTER, "An import refuses what the graph does not have and what is no graph.")
def refused_imports(tf: Any) -> Any:
    definition = _graph_def(tf)
    x = tf.constant(5.0)
    wrong = type(definition)()
    wrong.CopyFrom(definition)
    wrong.node[-1].input[0] = "missing"
    unknown = type(definition)()
    unknown.CopyFrom(definition)
    unknown.node[-1].op = "NoSuchOp"
    load = tf.import_graph_def
    return [
        error(lambda: load(definition, {"none": x})),
        error(lambda: load(definition, {"a": tf.constant(1)})),
        error(lambda: load(definition, return_elements=["none"])),
        error(lambda: load(definition, return_elements=["b:5"])),
        error(lambda: load(definition, return_elements=[3])),
        error(lambda: load("text")),
        error(lambda: load(definition, [x])),
        error(lambda: load(wrong)),
        error(lambda: load(unknown)),
        error(lambda: load(definition, {b"a:0": x}) is None),
    ]


@behaviour(FUNCTION, "A Defun's function runs in a graph, has gradients, and knows its arguments.")
def functions(tf: Any) -> Any:
    @tf.function
    def double(x: Any) -> Any:
        return x * 2.0

    a = tf.constant(3.0)
    r = double(a) + double(tf.constant(1.0))
    with tf.Session() as session:
        return session.run([r, *tf.gradients(r, a)])


@behaviour(META, "A meta graph holds nodes, collections and used ops; a scope may be cut out.")
def meta_graphs(tf: Any) -> Any:
    with tf.name_scope("s"):
        a = tf.constant(1.0, name="a")
        tf.multiply(a, 2.0, name="b")
    tf.constant(5.0, name="other")
    tf.add_to_collection("mine", a)
    tf.add_to_collection("names", "text")
    tf.add_to_collection("numbers", 7)
    whole = tf.train.export_meta_graph()
    part = tf.train.export_meta_graph(export_scope="s")
    return [
        [node.name for node in whole.graph_def.node],
        [node.name for node in part.graph_def.node],
        sorted(op.name for op in whole.meta_info_def.stripped_op_list.op),
        {k: v.WhichOneof("kind") for k, v in whole.collection_def.items()},
        whole.meta_info_def.stripped_default_attrs,
        list(whole.collection_def["numbers"].int64_list.value),
        list(whole.collection_def["names"].bytes_list.value),
    ]


@behaviour(DEVICE, "A device's name is read, written and merged part by part.")
def device_specs(tf: Any) -> Any:
    make = tf.DeviceSpec
    whole = make(job="ps", replica=1, task=2, device_type="GPU", device_index=3)
    part = make.from_string("/job:worker/cpu:*")
    texts = ("/device:GPU:0", "/job:w/task:3", "", "/gpu:1", "/replica:1/task:0/cpu:0")
    return [
        whole.to_string(),
        part.to_string(),
        [make.from_string(text).to_string() for text in texts],
        [part.job, part.device_type, part.device_index],
        error(lambda: make.from_string("/job:a/job:b/nonsense:x:y:z")),
        error(lambda: make.from_string("/junk:0")),
        whole == make.from_string(whole.to_string()),
    ]
