"""Which file systems there are."""

from __future__ import annotations

from tideflow.ops.export import export


@export("io.gfile.get_registered_schemes")
def get_registered_schemes() -> list[str]:
    """Return the schemes that names of files may begin with: those of the local file system."""
    return ["file", ""]
