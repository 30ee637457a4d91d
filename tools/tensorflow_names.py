"""The public names of TensorFlow: write down what they are, and print which of them tideflow lacks.

    python -m tools.tensorflow_names          prints by namespace how many there are, and what lacks
    python -m tools.tensorflow_names record   writes src/tideflow/as_tensorflow/tensorflow_names.txt

`record` reads the installed TensorFlow 2.21's own list: the modules of its API, which import each
public name from the module that defines it.
"""

from __future__ import annotations

import argparse
import ast
import importlib.resources
import importlib.util
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tideflow.as_tensorflow.names import V1, V2, Public, public_names, write_recorded
from tideflow.as_tensorflow.sources import is_there

TABLE = "tensorflow_names.txt"
_HEAD = """\
# The public names of TensorFlow 2.21, by the modules that define them.
#
# Written by `python -m tools.tensorflow_names record`. A line has what the module calls a thing,
# then its public names: after `1:` below tf.compat.v1 alone, after `2:` below tf alone. The ops of
# raw_ops are not listed.
"""

# What is no part of this runtime: other devices and formats, other compilers, training of forests,
# kernels of quantised models, and what TensorFlow keeps to itself.
OUTSIDE = (
    "__internal__",
    "__operators__",
    "experimental.dtensor",
    "experimental.tensorrt",
    "distribute.cluster_resolver.TPUClusterResolver",
    "distribute.experimental.TPUStrategy",
    "distribute.TPUStrategy",
    "lite",
    "mlir",
    "quantization.experimental",
    "tpu",
    "xla",
)


# ---- writing down


def table(package: Path) -> list[str]:
    """Return the lines that `record` writes.

    Args:
      package: the folder of the installed TensorFlow.
    """
    found: dict[str, dict[str, set[Public]]] = defaultdict(lambda: defaultdict(set))
    for shape, path, file in _namespaces(package):
        for module, attr, name in _imports(file):
            found[module][attr].add(Public(shape, f"{path}.{name}" if path else name))
    return [*_HEAD.splitlines(), *write_recorded(found)]


def _namespaces(package: Path) -> Iterator[tuple[str, str, Path]]:
    """Yield each namespace: its shape, its path, and the file of its module."""
    api = package / "_api" / "v2"
    yield V2, "", package / "__init__.py"
    for file in sorted(api.rglob("__init__.py")):
        parts = file.relative_to(api).parts[:-1]
        shape = V1 if parts[:2] == ("compat", "v1") else V2
        if shape == V1:
            parts = parts[2:]
        again = parts[:1] == ("compat",) and len(parts) > 1
        if "raw_ops" not in parts and not again and (parts or shape == V1):
            yield shape, ".".join(parts), file


def _imports(file: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the public names of a module: what defines each, its name there, the name."""
    for node in ast.parse(file.read_text()).body:
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith(
            "tensorflow."
        ):
            continue
        assert node.module is not None
        for alias in node.names:
            name = alias.asname or alias.name
            is_public = not name.startswith("_") or name.startswith("__")
            if is_public and not node.module.startswith("tensorflow._api"):
                yield node.module, alias.name, name


def installed() -> Path:
    """Return the folder of the installed TensorFlow.  Raises: ModuleNotFoundError without one."""
    spec = importlib.util.find_spec("tensorflow")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("there is no TensorFlow; it is the extra `tensorflow`")
    return Path(spec.origin).parent


def recorded_file() -> Path:
    """Return the file that `record` writes."""
    return Path(str(importlib.resources.files("tideflow.as_tensorflow").joinpath(TABLE)))


# ---- what lacks


@dataclass
class Count:
    """The names of a namespace: how many there are, and which lack here."""

    wanted: int = 0
    lacking: list[str] = field(default_factory=list)

    def __add__(self, other: Count) -> Count:
        return Count(self.wanted + other.wanted, [*self.lacking, *other.lacking])

    @property
    def there(self) -> str:
        """The count as text."""
        return f"{self.wanted - len(self.lacking)} of {self.wanted}"


def counts(shape: str) -> dict[str, Count]:
    """Return what lacks of a shape, by namespace; "" is the root."""
    found: dict[str, Count] = defaultdict(Count)
    for public in sorted(public_names()):
        if public.shape != shape or _is_outside(public.path):
            continue
        namespace, _, name = public.path.rpartition(".")
        found[namespace].wanted += 1
        if not is_there(public):
            found[namespace].lacking.append(name)
    return dict(sorted(found.items()))


def _is_outside(path: str) -> bool:
    return path.startswith("__") or any(f"{path}.".startswith(f"{name}.") for name in OUTSIDE)


def total(shape: str) -> Count:
    """Return what lacks of a shape in all."""
    return sum(counts(shape).values(), Count())


def summary(most: int | None = None) -> list[list[str]]:
    """Return the rows of a table: each namespace of which something lacks, and what.

    Args:
      most: how many names to show of a namespace; None for all.
    """
    rows = []
    for shape, root in ((V2, "tf"), (V1, "tf.compat.v1")):
        found = counts(shape)
        complete = sum(not count.lacking for count in found.values())
        rows.append([f"**{root}**, all", total(shape).there, f"{complete} namespaces lack nothing"])
        for namespace, count in found.items():
            if count.lacking:
                name = f"{root}.{namespace}" if namespace else root
                rest = len(count.lacking[most:]) if most is not None else 0
                shown = [*count.lacking[:most], *([f"{rest} more"] if rest else [])]
                rows.append([f"`{name}`", count.there, ", ".join(shown)])
    return rows


def main() -> None:
    """Write down the names, or print what lacks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="?", choices=["missing", "record"], default="missing")
    if parser.parse_args().what == "record":
        recorded_file().write_text("\n".join(table(installed())) + "\n")
        return
    for name, there, lacking in summary():
        print(f"{name.replace('`', '').replace('*', ''):48} {there:>14}  {lacking}")


if __name__ == "__main__":
    main()
