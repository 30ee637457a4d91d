"""What datasets and tensors give, as values that can be compared and written down."""

from __future__ import annotations

from typing import Any


def value(found: Any) -> Any:
    """Return a structure with its tensors as arrays, and sparse and ragged ones as their parts."""
    if isinstance(found, dict):
        return {str(key): value(item) for key, item in found.items()}
    if hasattr(found, "dense_shape"):
        return {name: value(getattr(found, name)) for name in ("indices", "values", "dense_shape")}
    if isinstance(found, (list, tuple)):
        return [value(item) for item in found]
    if hasattr(found, "row_splits"):
        return {"ragged": found.to_list()}
    if hasattr(found, "element_spec") and hasattr(found, "as_numpy_iterator"):
        return {"dataset": elements(found)}
    return found.numpy() if hasattr(found, "numpy") else found


def elements(dataset: Any) -> list[Any]:
    """Return the elements of a dataset."""
    return [value(element) for element in dataset]


def walked(dataset: Any, most: int = 20) -> list[Any]:
    """Return the elements, and the classes of the errors among them: a walk goes on after one."""
    found: list[Any] = []
    iterator = iter(dataset)
    while len(found) < most:
        try:
            found.append(value(next(iterator)))
        except StopIteration:
            break
        except Exception as error:
            found.append(type(error).__name__)
    return found
