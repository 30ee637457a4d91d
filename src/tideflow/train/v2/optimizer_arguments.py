"""The arguments that all optimizers of the TF2 shape take after their own, in Keras's order."""

from __future__ import annotations

import functools
import inspect
from typing import Any, TypeVar

T = TypeVar("T", bound=type)

_COMMON: dict[str, Any] = {
    "weight_decay": None,
    "clipnorm": None,
    "clipvalue": None,
    "global_clipnorm": None,
    "use_ema": False,
    "ema_momentum": 0.99,
    "ema_overwrite_frequency": None,
    "loss_scale_factor": None,
    "gradient_accumulation_steps": None,
    "name": None,
}


def with_common_arguments(cls: T) -> T:
    """Let the constructor of a class take them by position, too, where it passes **kwargs on."""
    init = cls.__init__  # type: ignore[misc]
    known = inspect.signature(init).parameters.values()
    own = [parameter for parameter in known if parameter.kind is not parameter.VAR_KEYWORD]
    rest = [name for name in _COMMON if name not in {parameter.name for parameter in own}]

    @functools.wraps(init)
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        at = len(own) - 1
        further = dict(zip(rest, args[at:], strict=False))
        if len(args) > at + len(rest) or further.keys() & kwargs.keys():
            raise TypeError(f"{cls.__name__}{inspect.signature(cls)} got an argument too many")
        init(self, *args[:at], **further, **kwargs)

    keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
    common = [inspect.Parameter(name, keyword, default=_COMMON[name]) for name in rest]
    more = inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)
    made.__signature__ = inspect.Signature([*own, *common, more])  # type: ignore[attr-defined]
    cls.__init__ = made  # type: ignore[misc]
    return cls
