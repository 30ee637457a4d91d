"""Settings of the whole process are read back.  They stay, so no other program is here."""

from __future__ import annotations

from typing import Any

from eager.behaviours.registry import error, program


@program
def wishes_of_the_process(tf: Any) -> Any:
    experimental, optimizer = tf.config.experimental, tf.config.optimizer
    given = {"constant_folding": False, "disable_meta_optimizer": False, "min_graph_nodes": 3}
    return [
        optimizer.get_jit(),
        [optimizer.set_jit("autoclustering"), optimizer.get_jit()],
        [optimizer.set_jit(False), optimizer.get_jit()],
        optimizer.get_experimental_options(),
        [optimizer.set_experimental_options(given), optimizer.get_experimental_options()],
        optimizer.set_experimental_options({"constant_folding": True, "min_graph_nodes": -1}),
        optimizer.get_experimental_options(),
        experimental.tensor_float_32_execution_enabled(),
        experimental.enable_tensor_float_32_execution(False),
        experimental.tensor_float_32_execution_enabled(),
        [experimental.enable_mlir_bridge(), experimental.disable_mlir_bridge()],
        error(lambda: experimental.set_memory_growth("CPU:0", True)),
        error(lambda: experimental.reset_memory_stats("CPU:0")),
    ]
