"""Which class of objects a saved model means by an identifier.

Source: tensorflow/python/saved_model/revived_types.py; recorded files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tideflow.eager.tracking import AutoTrackable, DictWrapper, ListWrapper
from tideflow.ops.export import export_v2
from tideflow.saved_models.signatures import SignatureMap
from tideflow.wire import messages as pb

Setter = Callable[[Any, str, Any], Any]


@export_v2("__internal__.saved_model.load.VersionedTypeRegistration")
class VersionedTypeRegistration:
    """How objects of one class are written, and made again, in one version.

    Args:
      object_factory: makes an object from the message of a saved one.
      version: what is written.
      min_producer_version: the oldest version that it can make objects of.
      min_consumer_version, bad_consumers: which readers may read what is written.
      setter: gives an object a child, like setattr.
    """

    def __init__(
        self,
        object_factory: Callable[[Any], Any],
        version: int,
        min_producer_version: int,
        min_consumer_version: int,
        bad_consumers: Any = None,
        setter: Setter = setattr,
    ) -> None:
        self.setter = setter
        self.identifier: str | None = None
        self.version = version
        self._factory = object_factory
        self._min_producer_version = min_producer_version
        self._min_consumer_version = min_consumer_version
        self._bad_consumers = list(bad_consumers or ())

    def to_proto(self) -> pb.SavedUserObject:
        """Return what is written of an object."""
        return pb.SavedUserObject(
            identifier=self.identifier,
            version=pb.VersionDef(
                producer=self.version,
                min_consumer=self._min_consumer_version,
                bad_consumers=self._bad_consumers,
            ),
        )

    def from_proto(self, proto: Any) -> Any:
        """Return a new object for a message."""
        return self._factory(proto)

    def should_load(self, proto: Any) -> bool:
        """Whether it makes objects of this message."""
        versions = proto.version
        return (
            proto.identifier == self.identifier
            and self.version >= versions.min_consumer
            and versions.producer >= self._min_producer_version
            and self.version not in versions.bad_consumers
        )


_registered: dict[str, tuple[Callable[[Any], bool], list[VersionedTypeRegistration]]] = {}


@export_v2("__internal__.saved_model.load.register_revived_type")
def register_revived_type(
    identifier: str,
    predicate: Callable[[Any], bool],
    versions: list[VersionedTypeRegistration],
) -> None:
    """Say how objects for which a predicate holds are written and made again.

    Raises: AssertionError for an identifier that is taken, or versions that are equal.
    """
    known = sorted(versions, key=lambda one: one.version, reverse=True)
    if len({one.version for one in known}) < len(known):
        raise AssertionError(f"Got multiple registrations with the same version for {identifier}.")
    if identifier in _registered:
        raise AssertionError(f"Duplicate registrations for type '{identifier}'")
    for one in known:
        one.identifier = identifier
    _registered[identifier] = predicate, known


@export_v2("__internal__.saved_model.load.registered_identifiers")
def registered_identifiers() -> Any:
    """Return the identifiers that classes have."""
    return _registered.keys()


@export_v2("__internal__.saved_model.load.get_setter")
def get_setter(proto: Any) -> Setter | None:
    """Return what gives a child to the object of a message; None for one of no known class."""
    found = _registration(proto)
    return None if found is None else found.setter


def _registration(proto: Any) -> VersionedTypeRegistration | None:
    _, versions = _registered.get(proto.identifier, (None, []))
    return next((one for one in versions if one.should_load(proto)), None)


def identifier_of(thing: Any) -> pb.SavedUserObject:
    """Return the message that says of what class an object is."""
    for predicate, versions in _registered.values():
        if predicate(thing):
            return versions[0].to_proto()
    own = getattr(thing, "_object_identifier", "_generic_user_object")
    return pb.SavedUserObject(identifier=own, version=pb.VersionDef(producer=1, min_consumer=1))


def new_object(proto: Any) -> tuple[Any, Setter]:
    """Return a new object for a message, and what gives it children."""
    found = _registration(proto)
    if found is not None:
        return found.from_proto(proto), found.setter
    # A class of its own, which is callable if the object has a function `__call__`.
    return type("_UserObject", (AutoTrackable,), {})(), _set_child


def _set_child(thing: Any, name: str, child: Any) -> None:
    setattr(thing, name, child)
    if name == "__call__":
        type(thing).__call__ = lambda self, *args, **kwargs: vars(self)["__call__"](*args, **kwargs)


def _set_item(thing: Any, name: str, child: Any) -> None:
    thing[name] = child


def _add_item(thing: Any, name: str, child: Any) -> None:
    if name.isdigit():
        while len(thing) <= int(name):
            thing.append(None)
        thing[int(name)] = child
    else:
        setattr(thing, name, child)


def _register_class(identifier: str, kind: type, make: Callable[[], Any], setter: Setter) -> None:
    version = VersionedTypeRegistration(lambda proto: make(), 1, 1, 1, setter=setter)
    register_revived_type(identifier, lambda thing: isinstance(thing, kind), [version])


_register_class("signature_map", SignatureMap, SignatureMap, SignatureMap.add)
_register_class("trackable_tuple_wrapper", tuple, ListWrapper, _add_item)
_register_class("trackable_list_wrapper", list, ListWrapper, _add_item)
_register_class("trackable_dict_wrapper", Mapping, DictWrapper, _set_item)
