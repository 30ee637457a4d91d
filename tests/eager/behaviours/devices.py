"""Names of devices that are not there, and where things are placed."""

from __future__ import annotations

from typing import Any

from eager.behaviours.registry import error, program


@program
def names_in_device_scopes(tf: Any) -> Any:
    def placed(name: Any) -> Any:
        def call() -> Any:
            with tf.device(name):
                v = tf.Variable(1.0)
                return [
                    (tf.constant(1.0) + 1.0).device,
                    tf.constant(1.0).device,
                    v.device,
                    tf.identity(v).device,
                ]

        return error(call)

    names = [
        "cpu",
        "CPU",
        "cpu:0",
        "CPU:1",
        "/cpu:1",
        "/device:CPU:1",
        "/CPU:1",
        "/TPU:0",
        "GPU:0",
        "gpu",
        "/gpu:0",
        "/device:GPU:3",
        "/job:localhost",
        "/job:localhost/replica:0/task:0/device:CPU:1",
        "CPU:7",
        "/job:worker",
        "/job:worker/task:1/GPU:0",
        "nonsense",
        "/nonsense:0",
        "",
        None,
        "XPU:0",
        "/task:1",
        "/replica:0",
    ]
    return [[name, placed(name)] for name in names]


@program
def names_in_functions(tf: Any) -> Any:
    def placed(name: Any) -> Any:
        @tf.function
        def f() -> Any:
            with tf.device(name):
                return tf.constant(1.0) + 1.0

        return error(lambda: [f(), f().device])

    return [
        [name, placed(name)]
        for name in [
            "cpu",
            "CPU:1",
            "/TPU:0",
            "GPU:0",
            "/gpu:0",
            "CPU:7",
            "/job:worker",
            "nonsense",
        ]
    ]


@program
def soft_placement(tf: Any) -> Any:
    found = [tf.config.get_soft_device_placement()]
    tf.config.set_soft_device_placement(False)

    def call(name: str) -> Any:
        def run() -> Any:
            with tf.device(name):
                return (tf.constant(1.0) + 1.0).device

        return error(run)

    try:
        found += [
            tf.config.get_soft_device_placement(),
            call("GPU:0"),
            call("CPU:7"),
            call("CPU:1"),
        ]
    finally:
        tf.config.set_soft_device_placement(True)
    return found


@program
def lists_of_devices(tf: Any) -> Any:
    return [
        tf.config.list_physical_devices("GPU"),
        tf.config.list_logical_devices("GPU"),
        tf.test.gpu_device_name(),
        len(tf.config.get_visible_devices()),
        [d.name for d in tf.config.list_logical_devices()],
        [d.name for d in tf.config.list_physical_devices()],
        [d.device_type for d in tf.config.list_logical_devices()],
        tf.config.list_physical_devices("cpu"),
        tf.test.is_built_with_cuda(),
        error(lambda: tf.config.set_visible_devices([], "GPU")),
        error(lambda: tf.config.threading.set_intra_op_parallelism_threads(2)),
        error(lambda: tf.config.threading.set_inter_op_parallelism_threads(2)),
        error(lambda: tf.config.experimental.get_memory_info("CPU:0")),
        error(
            lambda: tf.config.experimental.set_memory_growth(
                tf.config.list_physical_devices("CPU")[0], True
            )
        ),
        error(
            lambda: tf.config.set_logical_device_configuration(
                tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()]
            )
        ),
        tf.config.threading.get_intra_op_parallelism_threads(),
    ]


@program
def strategies_over_absent_devices(tf: Any) -> Any:
    return [
        error(lambda: tf.distribute.MirroredStrategy(["GPU:0", "GPU:1"]).num_replicas_in_sync),
        error(lambda: tf.distribute.MirroredStrategy(["/gpu:0"]).num_replicas_in_sync),
        error(lambda: tf.distribute.MirroredStrategy().num_replicas_in_sync),
        error(lambda: tf.distribute.MirroredStrategy([]).num_replicas_in_sync),
        error(lambda: tf.distribute.MirroredStrategy(["CPU:0", "CPU:0"]).num_replicas_in_sync),
        error(lambda: tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).num_replicas_in_sync),
        error(
            lambda: tf.distribute.MirroredStrategy(["CPU:0", "CPU:7"]).run(lambda: tf.constant(1.0))
        ),
        error(lambda: tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"]).extended.worker_devices),
        error(lambda: tf.distribute.OneDeviceStrategy("GPU:0").run(lambda: tf.constant(1.0) + 1.0)),
        error(
            lambda: tf.distribute.OneDeviceStrategy("/gpu:0").run(
                tf.function(lambda: tf.constant(1.0) + 1.0)
            )
        ),
        error(lambda: tf.distribute.OneDeviceStrategy("cpu").run(lambda: tf.constant(1.0))),
        error(lambda: tf.distribute.OneDeviceStrategy("nonsense").run(lambda: tf.constant(1.0))),
        error(
            lambda: (
                tf.distribute.experimental.CentralStorageStrategy(
                    ["CPU:0", "CPU:1"]
                ).num_replicas_in_sync
            )
        ),
        error(lambda: tf.distribute.experimental.CentralStorageStrategy().num_replicas_in_sync),
        error(lambda: tf.distribute.get_strategy().num_replicas_in_sync),
        error(lambda: tf.distribute.has_strategy()),
    ]


@program
def a_mirrored_program_on_an_absent_gpu(tf: Any) -> Any:
    strategy = tf.distribute.MirroredStrategy(["GPU:0"])
    with strategy.scope():
        v = tf.Variable(1.0)

    def step() -> Any:
        v.assign_add(1.0)
        return v.read_value()

    return [
        error(lambda: strategy.run(step)),
        error(lambda: strategy.run(tf.function(step))),
        error(lambda: v.device),
    ]
