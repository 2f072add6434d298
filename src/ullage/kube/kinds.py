"""API types: what a kind looks like here, and where it lives in the API.

A kind's fields are a msgspec Struct derived from `Object`; only the fields that it names are decoded, so a cache of 30,000
objects holds what decisions need and nothing else. `Kind` joins the Struct to its group, version and plural. CRDs, `kubectl
explain` and columns are generated from both (`crds/`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, dataclass_transform

import msgspec


class _ValueType(msgspec.StructMeta):
    """msgspec hands frozen and the rest down to subclasses, but not kw_only: this does."""

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **config: Any) -> Any:
        return super().__new__(mcls, name, bases, namespace, **{"kw_only": True, **config})


# The decorator tells type checkers that subclasses are frozen and keyword-only too; without it each would have to say so.
@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Value(msgspec.Struct, metaclass=_ValueType, frozen=True, omit_defaults=True, rename="camel", gc=False):
    """Anything inside an API object. Names are written in Python's way and read and sent in Kubernetes' way.

    Values are never changed: a new state is a new value (`msgspec.structs.replace`). They hold no cycles, hence `gc=False`.
    """


class OwnerReference(Value):
    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class Meta(Value):
    """The metadata that decisions need. What is not named here (managedFields, selfLink) is dropped on decoding."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    generate_name: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()


class Object(Value):
    """What every kind has. Subclasses add `spec`, `status` or whatever else the kind carries."""

    metadata: Meta = Meta()


T = TypeVar("T", bound=Object)
A = TypeVar("A")


def without_nulls(value: Any) -> Any:
    """Returns decoded JSON as Go reads it: a field that is null is a field that is absent.

    Go's encoder writes null for a zero time (`creationTimestamp: null`) and for a list without items. An item of a list that
    is null has no name and no amount, so it is left out, too.
    """
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value if item is not None]
    return value


def decode_as_go(data: bytes | msgspec.Raw, decoder: msgspec.json.Decoder[A]) -> A:
    """Decodes JSON as a program in Go does: null is the zero value, in every field.

    Only JSON that does not decode as it is pays for the second try. Raises msgspec's errors, and RecursionError.
    """
    try:
        return decoder.decode(data)
    except msgspec.ValidationError:
        return msgspec.convert(without_nulls(msgspec.json.decode(data)), decoder.type)


# Marks for `Annotated`: what the API server should know about a field and Python's types cannot say. They only go into the
# generated schema; unlike msgspec's own constraints they never make an object undecodable.
AS_SET = msgspec.Meta(extra_json_schema={"x-kubernetes-list-type": "set"})
ATOMIC = msgspec.Meta(extra_json_schema={"x-kubernetes-list-type": "atomic"})
OPEN = msgspec.Meta(extra_json_schema={"x-kubernetes-preserve-unknown-fields": True})  # fields not named here are kept
QUANTITY = msgspec.Meta(
    extra_json_schema={"pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]+))?$"}
)


def listed_by(*keys: str) -> msgspec.Meta:
    """A list that is merged and validated as a map: no two items have the same keys (given as they are on the wire)."""
    return msgspec.Meta(extra_json_schema={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)})


@dataclass(frozen=True, slots=True)
class Column:
    """One column of `kubectl get`. With `priority` 1 it shows only with `-o wide`."""

    name: str
    json_path: str
    type: str = "string"  # string, integer, number, boolean, date
    description: str = ""
    priority: int = 0


AGE = Column("Age", ".metadata.creationTimestamp", type="date")  # the API server adds it only to kinds without any column


@dataclass(frozen=True, slots=True)
class Rule:
    """A CEL rule on an object, or on the part of it at `path` (`spec`, `spec.source`)."""

    rule: str
    message: str
    path: str = ""
    reason: str = ""  # FieldValueInvalid unless another is named
    field_path: str = ""
    optional_old: bool = False  # `oldSelf` is an optional value, and the rule holds for what is new too


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """A kind, as one version of it is read and written."""

    group: str
    version: str
    kind: str
    plural: str
    type: type[T]
    namespaced: bool = True
    whole: bool = True  # False: a foreign kind, decoded partly; it can be patched, never PUT
    prunes: bool = False  # of a kind that is decoded partly: its own definition names all fields, and drops any other
    status: bool = True  # has the status subresource
    kept_annotations: tuple[str, ...] | None = None  # that are held of a cluster that is not believed; None: all
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    rules: tuple[Rule, ...] = ()

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def name(self) -> str:
        """`snapshots.longhorn.io`: how a resource is named in messages, metrics and ledger keys."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The resource's path on the API server. Names are checked by the client before they get here."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        place = f"/namespaces/{namespace}" if namespace and self.namespaced else ""
        return "/".join(part for part in (f"{root}{place}/{self.plural}", name, subresource) if part)
