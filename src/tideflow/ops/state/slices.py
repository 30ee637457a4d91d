"""Parts of larger saved tensors, as variables and their messages name them.

Source: SaveSliceInfoDef of variable.proto; checkpoints spell the part as in `spec`.
"""

from __future__ import annotations

from typing import Any

from tideflow.wire import messages as pb


def without_scope(name: str, scope: str | None) -> str | None:
    """Return a name relative to a scope, None for a name outside of it."""
    if not scope:
        return name
    prefix = scope.rstrip("/") + "/"
    return name[len(prefix) :] if name.startswith(prefix) else None


class SaveSliceInfo:
    """Which part of a larger saved tensor a variable is.

    Attributes:
      full_name, full_shape: of the whole.
      var_offset, var_shape: where the part lies and how large it is.
    """

    def __init__(
        self,
        full_name: str = "",
        full_shape: Any = (),
        var_offset: Any = (),
        var_shape: Any = (),
        save_slice_info_def: Any = None,
        import_scope: str | None = None,
    ) -> None:
        if save_slice_info_def is not None:
            given = save_slice_info_def
            full_name = f"{import_scope}/{given.full_name}" if import_scope else given.full_name
            full_shape, var_offset = given.full_shape, given.var_offset
            var_shape = given.var_shape
        self.full_name = full_name
        self.full_shape = list(full_shape)
        self.var_offset = list(var_offset)
        self.var_shape = list(var_shape)

    @property
    def spec(self) -> str:
        """The part as checkpoints spell it: "4 3 0,2:0,3"."""
        sizes = " ".join(str(size) for size in self.full_shape)
        parts = ":".join(f"{o},{s}" for o, s in zip(self.var_offset, self.var_shape))
        return f"{sizes} {parts}"

    def to_proto(self, export_scope: str | None = None) -> Any:
        """Return the message that describes the part, None for one outside the scope."""
        full_name = without_scope(self.full_name, export_scope)
        if full_name is None:
            return None
        return pb.SaveSliceInfoDef(
            full_name=full_name,
            full_shape=self.full_shape,
            var_offset=self.var_offset,
            var_shape=self.var_shape,
        )
