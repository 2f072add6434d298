"""What is served: one `Resource` for each kind in each version, and the `Registry` that finds them.

Built-in kinds come from a table, custom ones from CustomResourceDefinitions; from here on nothing can tell them apart
but by `custom`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ullage.standalone.apiserver.fields.shape import Shape
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.schema.definitions import load
from ullage.standalone.apiserver.status import FieldError, group_resource

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class Schema(Protocol):
    """What a kind's fields must look like. Compiled once; called on every write."""

    def default(self, obj: Json) -> None:
        """Fills absent fields in place."""

    def prune(self, obj: Json) -> list[str]:
        """Drops fields that the schema does not know, in place; returns their paths (`spec.foo`)."""

    def validate(self, obj: Json, old: Json | None = None, *, blocked: bool = False) -> list[FieldError]:
        """Every fault in the object. `old` is given on updates, for transition rules and ratcheting.

        `blocked`: something else is wrong with the object already, so that its rules are not run but named as not run.
        """


@dataclass(frozen=True, slots=True)
class Subresource:
    """`pods/status`, `deployments/scale`: its own kind, its own verbs."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""  # of its kind, where it differs from the parent's (autoscaling/v1 Scale)
    version: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of `kubectl get`. `priority` above zero shows only with `-o wide`."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    json_path: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Resource:
    """A kind, as one version of it is served. Two are equal only if they are one: a changed CRD makes new ones."""

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...] = ALL_VERBS
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: Mapping[str, Subresource] = field(default_factory=dict)
    storage: str = ""  # the key space in the store; kinds that share one (events) are views of the same objects
    storage_version: str = ""  # the apiVersion in which objects are stored
    schema: Schema | None = None
    raw: Json | None = None  # the OpenAPI schema behind it: a `$ref` into the definitions, or the CRD's own
    custom: Json | None = None  # the CustomResourceDefinition's spec, for custom kinds
    columns: tuple[Column, ...] = ()
    to_storage: Callable[[Json], Json] | None = None  # where the versions differ in more than their name
    from_storage: Callable[[Json], Json] | None = None
    list_kind: str = ""
    definition: str = ""  # the CustomResourceDefinition's uid: a later one of the same name is another kind
    since: int = 0  # the revision at which this schema came: older objects may lack its defaults
    memo: dict[str, Any] = field(default_factory=dict, init=False, repr=False)  # what is made once from it, and goes with it

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> str:
        return group_resource(self.group, self.plural)

    @property
    def gvk(self) -> Json:
        return {"group": self.group, "version": self.version, "kind": self.kind}

    def has(self, subresource: str) -> bool:
        return subresource in self.subresources


class Registry:
    """All resources that are served now. Readers hold no copies: a CRD may come or go between two requests."""

    def __init__(self, resources: Iterable[Resource] = (), *, empty: Mapping[str, tuple[str, ...]] | None = None) -> None:
        self._by_path: dict[tuple[str, str, str], Resource] = {}
        self.empty = empty or {}  # groups that discovery lists with versions, and that have no resources
        self.generation = 0  # grows with every change: the key of anything derived from the whole (OpenAPI, discovery)
        for resource in resources:
            self.add(resource)

    def add(self, resource: Resource) -> None:
        """Serves a resource. Raises ValueError for a custom one in the place of a built-in one."""
        held = self._by_path.get((resource.group, resource.version, resource.plural))
        if resource.custom is not None and held is not None and held.custom is None:
            raise ValueError(f"{resource.group_resource} is a kind of the API server itself")
        self._by_path[resource.group, resource.version, resource.plural] = resource
        self.generation += 1

    def remove(self, group: str, plural: str) -> None:
        """Takes every version of a custom resource out of service."""
        for key, held in list(self._by_path.items()):
            if key[0] == group and key[2] == plural and held.custom is not None:
                del self._by_path[key]
        self.generation += 1

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        return self._by_path.get((group, version, plural))

    def need(self, group: str, version: str, plural: str) -> Resource:
        """A resource that is always served."""
        return self._by_path[group, version, plural]

    def by_kind(self, group: str, version: str, kind: str) -> Resource | None:
        return next((r for r in self if (r.group, r.version, r.kind) == (group, version, kind)), None)

    def versions(self, group: str, plural: str) -> list[Resource]:
        return [r for r in self if r.group == group and r.plural == plural]

    def __iter__(self) -> Iterator[Resource]:
        return iter(tuple(self._by_path.values()))

    def builtin_group(self, group: str) -> bool:
        """Whether a group is the server's own: paths below it are answered by other machinery than those of custom ones."""
        return any(resource.group == group and resource.custom is None for resource in self)

    def groups(self) -> dict[str, list[str]]:
        """Group name to its versions, both in the order in which they were added."""
        found: dict[str, dict[str, None]] = {}
        for resource in self:
            found.setdefault(resource.group, {})[resource.version] = None
        return {group: list(versions) for group, versions in found.items()}


def shape_of(resource: Resource) -> Shape:
    """The shape of a resource's objects, made once."""
    found: Shape | None = resource.memo.get("shape")
    if found is None:
        found = resource.memo["shape"] = Shape.of(resource.raw, load())
    return found
