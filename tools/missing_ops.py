"""List the ops that TensorFlow has a CPU kernel for and that tideflow does not define.

python tools/missing_ops.py [--names]

Needs TensorFlow 2.21.  Only ops that a public name makes count: each has a name in tf.raw_ops;
with --names come the other names of tf and tf.compat.v1, and "library" where TensorFlow's Python
calls it.
"""

from __future__ import annotations

import argparse
import importlib
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import tideflow.v1  # noqa: F401  brings in all definitions
from tideflow.graph.op_def import registered_ops

# What is not of this runtime: other devices and compilers, other libraries' formats, tests of
# TensorFlow itself, and ops of training forests.
EXCLUDED = re.compile(
    r"^_|^(Xla|TPU|Tpu|DTensor|BoostedTrees|Tensorforest|TensorForest|Lite|Tflite|Cudnn|Nccl|IfrtCall"
    r"|Ifrt|Dummy|Old$|Risc|TRT|Test|Kernel|Debug|Mlir|Batch(Function|$)|Unbatch)|TPU|Tpu|DTensor"
    r"|Embedding(Activations|Activation)|SparseCore|Mkl|Onednn|OneDnn|ConvertTo(Coo|Sparse)"
)


# Kernels that give nothing: those of LMDB say that its support was removed, and what reads nested
# snapshots gives an element of another shape than it declares, which ends the process.
WITHOUT_RESULT = re.compile(r"LMDB|^SnapshotNestedDatasetReader$")


def kernels_on_cpus() -> set[str]:
    """Return the ops that have a kernel for CPUs."""
    kernels = importlib.import_module("tensorflow.python.framework.kernels")
    found = kernels.get_all_registered_kernels().kernel
    return {one.op for one in found if one.device_type in ("CPU", "DEFAULT")}


def names_of_functions(tf: Any) -> dict[str, list[str]]:
    """Return the public names of each op's own function."""
    names: dict[str, list[str]] = defaultdict(list)
    for module_file in Path(tf.__file__).parent.glob("python/ops/gen_*.py"):
        module = importlib.import_module(f"tensorflow.python.ops.{module_file.stem}")
        for name in dir(tf.raw_ops):
            function = getattr(module, _snake(name), None)
            for prefix, attr in (("tf", "_tf_api_names"), ("tf.compat.v1", "_tf_api_names_v1")):
                for public in getattr(function, attr, ()):
                    names[name].append(f"{prefix}.{public}")
    return names


def _snake(name: str) -> str:
    text = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", text).lower()


def called_by_the_library(tf: Any, ops: set[str]) -> set[str]:
    """Return the ops whose functions TensorFlow's own Python calls."""
    by_function = {_snake(name): name for name in ops}
    call = re.compile(r"\bgen_\w+\.(\w+)")
    found = set()
    for path in Path(tf.__file__).parent.glob("python/**/*.py"):
        if not path.name.startswith("gen_"):
            for function in call.findall(path.read_text(errors="ignore")):
                found |= {by_function.get(function.removesuffix("_eager_fallback"), "")}
    return found - {""}


def is_removed(name: str) -> bool:
    """Whether graphs of this version may hold no such op any more."""
    registry = importlib.import_module("tensorflow.python.framework.op_def_registry")
    versions = importlib.import_module("tensorflow.python.framework.versions")
    version: int = registry.get(name).deprecation.version
    return 0 < version <= versions.GRAPH_DEF_VERSION


def missing_ops(tf: Any) -> list[str]:
    """Return what tideflow lacks of the ops with a CPU kernel and a public name."""
    public = set(dir(tf.raw_ops))
    wanted = {
        name
        for name in kernels_on_cpus() & public
        if not EXCLUDED.search(name) and not WITHOUT_RESULT.search(name) and not is_removed(name)
    }
    return sorted(wanted - set(registered_ops()))


def main() -> None:
    """Print the list."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--names", action="store_true", help="with the public names of each")
    tf = importlib.import_module("tensorflow")
    missing = missing_ops(tf)
    if not parser.parse_args().names:
        print("\n".join(missing))
        return
    names, called = names_of_functions(tf), called_by_the_library(tf, set(missing))
    for name in missing:
        more = [*names.get(name, ()), *(["library"] if name in called else [])]
        print(name, "raw_ops", *more)


if __name__ == "__main__":
    main()
