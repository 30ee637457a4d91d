"""Which TensorFlow the stand-in stands for."""

from __future__ import annotations

VERSION = "2.21.0"

# What programs read of it, by public name; the last ones say how TensorFlow's library was built.
VALUES: dict[str, object] = {
    "__version__": VERSION,
    "VERSION": VERSION,
    "version.VERSION": VERSION,
    "__git_version__": f"v{VERSION}",
    "GIT_VERSION": f"v{VERSION}",
    "version.GIT_VERSION": f"v{VERSION}",
    "__compiler_version__": "none",
    "COMPILER_VERSION": "none",
    "version.COMPILER_VERSION": "none",
    "__cxx11_abi_flag__": 1,
    "CXX11_ABI_FLAG": 1,
    "sysconfig.CXX11_ABI_FLAG": 1,
    "__cxx_version__": 201703,
    "CXX_VERSION": 201703,
    "sysconfig.CXX_VERSION": 201703,
    "__monolithic_build__": 0,
    "MONOLITHIC_BUILD": 0,
    "sysconfig.MONOLITHIC_BUILD": 0,
}
