"""Options of saving and loading models.

Source: tensorflow/python/saved_model/save_options.py, load_options.py.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tideflow.ops.export import export, export_v2


@export("saved_model.experimental.VariablePolicy")
@export_v2("saved_model.experimental.VariablePolicy")
class VariablePolicy(enum.Enum):
    """What a saved model tells of variables besides their values."""

    NONE = None
    SAVE_VARIABLE_DEVICES = "save_variable_devices"
    EXPAND_DISTRIBUTED_VARIABLES = "expand_distributed_variables"

    def _save_variable_devices(self) -> bool:
        """Whether devices are told."""
        return self is not VariablePolicy.NONE

    def _expand_distributed_variables(self) -> bool:
        """Whether the copies for replicas are told one by one."""
        return self is VariablePolicy.EXPAND_DISTRIBUTED_VARIABLES

    @staticmethod
    def from_obj(obj: Any) -> VariablePolicy:
        """Return the policy that an object stands for: one, None or a name.

        Raises: ValueError for another value.
        """
        if obj is None:
            return VariablePolicy.NONE
        if isinstance(obj, VariablePolicy):
            return obj
        name = str(obj).lower()
        for policy in VariablePolicy:
            if policy.value == name:
                return policy
        raise ValueError(f"Received invalid VariablePolicy value: {obj}.")


@export("saved_model.SaveOptions")
@export_v2("saved_model.SaveOptions")
class SaveOptions:
    """Say how a model is saved.

    Args:
      namespace_whitelist: namespaces whose ops the model may use ("Name>Op"); all if None.
      save_debug_info: write the file of debugging information, which has no traces here.
      function_aliases: functions of the model by names under which they can be found.
      experimental_debug_stripper: accepted; nothing is stripped.
      experimental_io_device: accepted; this process writes the files.
      experimental_variable_policy: a VariablePolicy or its name.
      experimental_custom_gradients: keep gradients that functions define.
      experimental_image_format: accepted; the model is written in one file.
      experimental_skip_saver: leave out the nodes that save and restore in sessions.
      experimental_sharding_callback: says which tensors go into which files of variables.
      extra_tags: tags of the graph besides "serve".
    """

    def __init__(
        self,
        namespace_whitelist: Iterable[str] | None = None,
        save_debug_info: bool = False,
        function_aliases: Mapping[str, Callable[..., Any]] | None = None,
        experimental_debug_stripper: bool = False,
        experimental_io_device: str | None = None,
        experimental_variable_policy: Any = None,
        experimental_custom_gradients: bool = True,
        experimental_image_format: bool = False,
        experimental_skip_saver: bool = False,
        experimental_sharding_callback: Any = None,
        extra_tags: Iterable[str] | None = None,
    ) -> None:
        self.namespace_whitelist = _namespaces(namespace_whitelist)
        self.save_debug_info = save_debug_info
        self.function_aliases = dict(function_aliases or {})
        self.experimental_debug_stripper = experimental_debug_stripper
        self.experimental_io_device = experimental_io_device
        self.experimental_variable_policy = VariablePolicy.from_obj(experimental_variable_policy)
        self.experimental_custom_gradients = experimental_custom_gradients
        self.experimental_image_format = experimental_image_format
        self.experimental_skip_saver = experimental_skip_saver
        self.experimental_sharding_callback = experimental_sharding_callback
        self.extra_tags = extra_tags


def _namespaces(given: Iterable[str] | None) -> list[str] | None:
    """Raises: TypeError for what are no names; ValueError for one that no namespace has."""
    if given is None:
        return None
    found = []
    for name in given:
        if not isinstance(name, str):
            raise ValueError(f"Whitelisted namespace must be a string. Got: {name!r}.")
        found.append(name)
    return found


@export_v2("saved_model.LoadOptions")
class LoadOptions:
    """Say how a model is loaded.

    Args:
      allow_partial_checkpoint: accept variables that the checkpoint does not have.
      experimental_io_device: accepted; this process reads the files.
      experimental_skip_checkpoint: leave variables at zero and tables empty.
      experimental_variable_policy: a VariablePolicy or its name; devices are those of the program.
      experimental_load_function_aliases: give the loaded object `function_aliases`.
    """

    def __init__(
        self,
        allow_partial_checkpoint: bool = False,
        experimental_io_device: str | None = None,
        experimental_skip_checkpoint: bool = False,
        experimental_variable_policy: Any = None,
        experimental_load_function_aliases: bool = False,
    ) -> None:
        self.allow_partial_checkpoint = allow_partial_checkpoint
        self.experimental_io_device = experimental_io_device
        self.experimental_skip_checkpoint = experimental_skip_checkpoint
        self.experimental_variable_policy = VariablePolicy.from_obj(experimental_variable_policy)
        self.experimental_load_function_aliases = experimental_load_function_aliases
