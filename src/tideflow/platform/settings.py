"""What a user can set about how tideflow runs, beside what programs say in ConfigProto.

    server = tf.train.Server(cluster, "worker", 0, settings=process_settings().replace(peer=False))

Rule 1: the environment is read once, when the first setting is asked for (`process_settings`); what
        is set later has no effect.
Rule 2: whoever acts by a setting is given a Settings: by a server, a session or a command.  Without
        one, a server or a session takes the process's.
Rule 3: a variable whose value makes no sense is an error that says what would; one that begins with
        TIDEFLOW_ and is no setting is warned of.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import ipaddress
import logging
import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tideflow.wire import errors

_LOGGER = logging.getLogger("tideflow")

_PREFIX = "TIDEFLOW_"
# Variables of tideflow's own tests.
_TESTS_PREFIX = "TIDEFLOW_TEST_"

DEFAULT = "default"
ENVIRONMENT = "environment variable"
ARGUMENT = "argument"

# What Settings.file_roots says where graphs reach no files.
NO_FILES = "none"


@dataclass(frozen=True)
class Kind:
    """What a setting may be.

    Attributes:
      expects: it in words, after "it must be".
      parse: makes a value of text.  Raises: ValueError.
      accepts: whether a value is one of them.
    """

    expects: str
    parse: Callable[[str], Any]
    accepts: Callable[[Any], bool]


def _choice(*words: str) -> Kind:
    def parse(text: str) -> str:
        if text.lower() not in words:
            raise ValueError(text)
        return text.lower()

    return Kind(f"one of {', '.join(words)}", parse, lambda value: value in words)


def _parse_switch(text: str) -> bool:
    return {"on": True, "off": False}[text.lower()]


def _switch() -> Kind:
    return Kind("on or off", _parse_switch, lambda value: isinstance(value, bool))


def _switch_or_number(expects: str, most: float) -> Kind:
    def parse(text: str) -> bool | int:
        if text.isdecimal():
            return int(text)
        return _parse_switch(text)

    def accepts(value: Any) -> bool:
        return isinstance(value, bool) or (isinstance(value, int) and 0 <= value <= most)

    return Kind(expects, parse, accepts)


def _seconds(least: float, most: float, expects: str) -> Kind:
    def accepts(value: Any) -> bool:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and least <= value <= most

    return Kind(expects, float, accepts)


def _parse_platform(text: str) -> str:
    platform, _, device_type = text.partition("=")
    if not platform or not device_type:
        raise ValueError(text)
    return text


def _networks(text: str) -> str:
    for one in text.split(","):
        ipaddress.ip_network(one)
    return text


def _folders(text: str) -> str:
    if text != NO_FILES and not all(map(os.path.isabs, text.split(os.pathsep))):
        raise ValueError(text)
    return text


def _text(expects: str, parse: Callable[[str], str] = str) -> Kind:
    def accepts(value: Any) -> bool:
        try:
            return isinstance(value, str) and (not value or parse(value) == value)
        except ValueError:
            return False

    return Kind(expects, parse, accepts)


def _setting(
    variable: str, default: Any, kind: Kind, meaning: str, *, is_secret: bool = False
) -> Any:
    metadata = {"variable": variable, "kind": kind, "meaning": meaning, "is_secret": is_secret}
    return field(default=default, metadata=metadata, repr=not is_secret)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings; they never change.

    A Settings that is made by its name has defaults for what is left out, whatever the environment
    says; `process_settings().replace(...)` has the environment's.
    Raises: InvalidArgumentError for a value that makes no sense, which says what would.
    """

    jit: str | None = _setting(
        "TIDEFLOW_JIT", None, _choice("never", "auto", "always"),
        "What is compiled: nothing (never), what is hot and faster so (auto), or everything "
        "(always). Unset: what a session's global_jit_level says, which is auto.",
    )  # fmt: skip
    jit_cache: str = _setting(
        "TIDEFLOW_JIT_CACHE", "auto", _text("a folder, auto or off"),
        "A folder in which compiled code is kept for the next program; off: it is not kept. Unset: "
        "tideflow/compiled in the user's folder for caches, 512 MiB at most. Compiled code is the "
        "process's: its servers and sessions cannot differ in this.",
    )  # fmt: skip
    onednn: bool = _setting(
        "TIDEFLOW_ONEDNN", True, _switch(),
        "Whether compiled code for CPUs may compute convolutions by the oneDNN that jaxlib holds. "
        "Compiled code is the process's: its servers and sessions cannot differ in this.",
    )  # fmt: skip
    accelerators: str = _setting(
        "TIDEFLOW_ACCELERATORS", "",
        _text("a platform of jax and a device type, such as cpu=GPU", _parse_platform),
        "A platform of jax that stands in for accelerators, PLATFORM=TYPE, for tests without a "
        "GPU. Unset: the GPUs that jax finds.",
    )  # fmt: skip
    grpc: str = _setting(
        "TIDEFLOW_GRPC", "h2", _choice("grpcio", "h2"),
        "Who speaks gRPC: tideflow itself (h2), or grpcio, which is an extra.",
    )  # fmt: skip
    peer: bool = _setting(
        "TIDEFLOW_PEER", True, _switch(),
        "Whether tideflow servers push tensors, runs and results to each other on one stream.",
    )  # fmt: skip
    shared_memory: bool | int = _setting(
        "TIDEFLOW_SHARED_MEMORY", True, _switch_or_number("on, off, or a number of MiB", math.inf),
        "Whether processes of one host and user hand large messages over in shared memory, or how "
        "many MiB at most. on: a quarter of what the process may use, up to 4096. All that have "
        "the same limit share it.",
    )  # fmt: skip
    wait_s: float = _setting(
        "TIDEFLOW_WAIT_S", 7200.0, _seconds(math.ulp(0.0), math.inf, "a number of seconds above 0"),
        "How long a session waits for its cluster, where operation_timeout_in_ms does not say.",
    )  # fmt: skip
    silence_s: float = _setting(
        "TIDEFLOW_SILENCE_S", 10.0, _seconds(0.2, 3600.0, "a number of seconds from 0.2 to 3600"),
        "How long the host of a peer that owes an answer may say nothing before it is given up.",
    )  # fmt: skip
    spin: bool | int = _setting(
        "TIDEFLOW_SPIN", True, _switch_or_number("on, off, or up to 10000 microseconds", 10_000),
        "For how many microseconds to look for the next message before sleeping. on: 500, where "
        "there are two cores.",
    )  # fmt: skip
    local_users: bool = _setting(
        "TIDEFLOW_LOCAL_USERS", False, _switch(),
        "Whether a server answers other users of its host, too, not just its own and root.",
    )  # fmt: skip
    insecure: bool = _setting(
        "TIDEFLOW_INSECURE", False, _switch(),
        "Whether a server answers whoever reaches it, from any host, as TensorFlow's do: anybody "
        "can then run code as its user.",
    )  # fmt: skip
    tls: str = _setting(
        "TIDEFLOW_TLS", "", _text("a folder of certificates, or CERTIFICATE:KEY:AUTHORITIES"),
        "Where this process finds its certificate, key and trusted authorities, for mutual TLS: a "
        "folder that `tideflow certs` made, or three files. Unset: no TLS.",
    )  # fmt: skip
    insecure_peers: str = _setting(
        "TIDEFLOW_INSECURE_PEERS", "", _text("networks such as 10.0.0.0/24,10.1.0.0/24", _networks),
        "Networks whose hosts are spoken to without TLS, and may call without any proof: those of "
        "TensorFlow's servers in a cluster with ours. Whoever has such an address can run code.",
    )  # fmt: skip
    file_roots: str = _setting(
        "TIDEFLOW_FILE_ROOTS", "", _text("none, or folders as /data:/logs", _folders),
        "Folders beneath which graphs may read and write files; none: they reach no files. Unset: "
        "all files of the user. Servers and sessions of one process cannot differ in this.",
    )  # fmt: skip
    memory: bool | int = _setting(
        "TIDEFLOW_MEMORY", True, _switch_or_number("on, off, or a number of MiB", math.inf),
        "How many MiB the process of a server may hold before it refuses what callers send and ask "
        "for. on: half of what it may use. off: no limit.",
    )  # fmt: skip
    token_file: str = _setting(
        "TIDEFLOW_TOKEN_FILE", "", _text("a file"),
        "A file with the cluster's secret, for those who have no certificates: calls bring it, "
        "over TLS or on one host, and servers take who has it for a task.",
    )  # fmt: skip
    token: str = _setting(
        "TIDEFLOW_TOKEN", "", _text("a secret of 16 characters or more"),
        "The cluster's secret itself; a file is better kept.", is_secret=True,
    )  # fmt: skip
    from_variables: frozenset[str] = field(default=frozenset(), compare=False, repr=False)

    def __post_init__(self) -> None:
        for one in _fields():
            value = getattr(self, one.name)
            if value is not one.default and not one.metadata["kind"].accepts(value):
                raise errors.InvalidArgumentError(
                    f"the setting {one.name} is {value!r}; it must be {_expects(one)}"
                )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Settings:
        """Return what variables say; an empty variable counts as one that is not set.

        Raises: InvalidArgumentError that names the variable, and what it may be.
        """
        _warn_of_unknown(environment)
        found: dict[str, Any] = {}
        for one in _fields():
            variable = one.metadata["variable"]
            text = environment.get(variable, "")
            if text:
                found[one.name] = _parsed(one, text, variable)
        return cls(**found, from_variables=frozenset(found))

    def replace(self, **changes: Any) -> Settings:
        """Return these settings, but for some.

        Raises: InvalidArgumentError for a setting that there is not, or a value without sense.
        """
        for name in changes:
            _find(name)
        rest = self.from_variables - set(changes)
        return dataclasses.replace(self, **changes, from_variables=rest)

    def with_words(self, words: list[str]) -> Settings:
        """Return these settings, but for what words such as "peer=off" say.

        Raises: InvalidArgumentError.
        """
        changes = {}
        for word in words:
            name, equals, text = word.partition("=")
            if not equals:
                raise errors.InvalidArgumentError(f"{word!r} must be NAME=VALUE, such as peer=off")
            changes[name] = _parsed(_find(name), text, f"the setting {name}")
        return self.replace(**changes)

    def described(self) -> list[DescribedSetting]:
        """Return each setting with its value and where that comes from."""
        return [
            DescribedSetting(
                name=one.name,
                variable=one.metadata["variable"],
                value=_shown_value(one, getattr(self, one.name)),
                default=_shown(one.default),
                origin=self._origin(one),
                meaning=one.metadata["meaning"],
            )
            for one in _fields()
        ]

    def _origin(self, one: dataclasses.Field[Any]) -> str:
        if one.name in self.from_variables:
            return ENVIRONMENT
        # 1 is not True: so many microseconds, or MiB.
        value = getattr(self, one.name)
        is_default = value == one.default and type(value) is type(one.default)
        return DEFAULT if is_default else ARGUMENT


@dataclass(frozen=True)
class DescribedSetting:
    """One setting, as `tideflow settings` shows it.

    Attributes:
      name: in Settings.
      variable: of the environment.
      value, default: as they would be written in the variable; "" for one that is not set.
      origin: DEFAULT, ENVIRONMENT or ARGUMENT.
      meaning: in words.
    """

    name: str
    variable: str
    value: str
    default: str
    origin: str
    meaning: str


def _fields() -> list[dataclasses.Field[Any]]:
    return [one for one in dataclasses.fields(Settings) if one.metadata]


def _find(name: str) -> dataclasses.Field[Any]:
    known = {one.name: one for one in _fields()}
    if name not in known:
        raise errors.InvalidArgumentError(
            f"there is no setting {name!r}; there is {', '.join(known)}"
        )
    return known[name]


def _parsed(one: dataclasses.Field[Any], text: str, where: str) -> Any:
    kind = one.metadata["kind"]
    try:
        value = kind.parse(text)
    except (ValueError, KeyError):
        value = None
    if value is None or not kind.accepts(value):
        raise errors.InvalidArgumentError(f"{where} is {text!r}; it must be {_expects(one)}")
    return value


def _expects(one: dataclasses.Field[Any]) -> str:
    expects: str = one.metadata["kind"].expects
    return expects


def _shown_value(one: dataclasses.Field[Any], value: Any) -> str:
    return "(secret)" if one.metadata["is_secret"] and value else _shown(value)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:g}"
    return "" if value is None else str(value)


def _warn_of_unknown(environment: Mapping[str, str]) -> None:
    known = [one.metadata["variable"] for one in _fields()]
    for name in sorted(environment):
        if name.startswith(_PREFIX) and not name.startswith(_TESTS_PREFIX) and name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}? " if near else ""
            _LOGGER.warning(
                "%s is no setting of tideflow; %s`tideflow settings` lists them", name, hint
            )


_lock = threading.Lock()
_of_process: Settings | None = None


def process_settings() -> Settings:
    """Return what the environment said when this was first called.

    Raises: InvalidArgumentError for a variable that makes no sense.
    """
    global _of_process
    if _of_process is None:
        with _lock:
            if _of_process is None:
                _of_process = Settings.from_environment(os.environ)
    return _of_process


@contextlib.contextmanager
def using(settings: Settings) -> Iterator[None]:
    """Give the process other settings for the body of `with`: those of a command, or a test's."""
    global _of_process
    before, _of_process = _of_process, settings
    try:
        yield
    finally:
        _of_process = before
