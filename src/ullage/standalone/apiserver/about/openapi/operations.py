"""What can be done with a resource over HTTP, in neither dialect of OpenAPI.

kubectl reads these to learn whether the server knows `fieldValidation` and `dryRun` for a kind; generators build clients
from them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ullage.standalone.apiserver.about.openapi.schemas import definition_name, list_name
from ullage.standalone.apiserver.kinds.builtin import CONNECT
from ullage.standalone.apiserver.kinds.resources import Resource, Subresource
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.schema.definitions import Definitions

META = "io.k8s.apimachinery.pkg.apis.meta.v1"
PATCHES = ("application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json")
STRATEGIC = "application/strategic-merge-patch+json"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter in the query or in the path."""

    name: str
    type: str
    description: str
    place: str = "query"


@dataclass(frozen=True, slots=True)
class Operation:
    """One method at one path. `body` and `answer` are definition names; an empty one means text or nothing."""

    path: str
    method: str
    action: str
    id: str
    description: str
    gvk: Json
    body: str
    answer: str
    parameters: tuple[Parameter, ...]
    consumes: tuple[str, ...]
    codes: tuple[int, ...]


NAMESPACE = Parameter("namespace", "string", "object name and auth scope, such as for teams and projects", "path")
PRETTY = Parameter("pretty", "string", "If 'true', the output is printed for human eyes.")

_WRITE = (
    Parameter("dryRun", "string", "With the value All, everything is done but storing the result."),
    Parameter(
        "fieldManager", "string", "The name under which the changed fields are recorded; at most 128 printable characters."
    ),
    Parameter(
        "fieldValidation", "string", "What happens to unknown and duplicate fields: Ignore, Warn (the default) or Strict."
    ),
)
_FORCE = Parameter("force", "boolean", "For apply patches: takes over fields that other managers own.")
_LIST = (
    Parameter("allowWatchBookmarks", "boolean", "Asks a watch for BOOKMARK events, which carry only a resourceVersion."),
    Parameter("continue", "string", "Where the next part of a list that was cut by `limit` begins."),
    Parameter("fieldSelector", "string", "Only objects whose fields match."),
    Parameter("labelSelector", "string", "Only objects whose labels match."),
    Parameter("limit", "integer", "The largest number of objects in one answer."),
    Parameter("resourceVersion", "string", "The version to read at, or to watch from."),
    Parameter("resourceVersionMatch", "string", "How resourceVersion is meant: Exact or NotOlderThan."),
    Parameter("sendInitialEvents", "boolean", "A watch begins with the objects that exist, and a bookmark behind the last."),
    Parameter("timeoutSeconds", "integer", "How long a watch may last."),
    Parameter("watch", "boolean", "Sends changes as they happen, instead of a list."),
)
_DELETE = (
    _WRITE[0],
    Parameter("gracePeriodSeconds", "integer", "How long the object may take to stop. Zero means at once."),
    Parameter("orphanDependents", "boolean", "The older way to say propagationPolicy=Orphan."),
    Parameter("propagationPolicy", "string", "What becomes of dependents: Orphan, Background or Foreground."),
)
_PARAMETERS = {
    "get": (),
    "list": _LIST,
    "post": _WRITE,
    "put": _WRITE,
    "patch": (*_WRITE, _FORCE),
    "delete": _DELETE,
    "deletecollection": (*_LIST, *_DELETE[1:], _DELETE[0]),
    "connect": (),
}
_CODES = {"post": (200, 201, 202), "put": (200, 201), "patch": (200, 201), "delete": (200, 202)}

# verb: method, action, the verb in the operation's id, its description
_COLLECTION = {
    "list": ("get", "list", "list", "list objects of kind {}"),
    "create": ("post", "post", "create", "create a {}"),
    "deletecollection": ("delete", "deletecollection", "deleteCollection", "delete collection of {}"),
}
_ITEM = {
    "get": ("get", "get", "read", "read the specified {}"),
    "update": ("put", "put", "replace", "replace the specified {}"),
    "delete": ("delete", "delete", "delete", "delete a {}"),
    "patch": ("patch", "patch", "patch", "partially update the specified {}"),
    "create": ("post", "post", "create", "create a {}"),
}


def operations(resource: Resource, definitions: Definitions) -> Iterator[Operation]:
    """Everything under a resource's paths, subresources included."""
    root = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
    scope = "/namespaces/{namespace}" if resource.namespaced else ""
    collection = f"{root}{scope}/{resource.plural}"
    for verb in (verb for verb in _COLLECTION if verb in resource.verbs):
        yield _operation(resource, definitions, collection, _COLLECTION[verb])
    if resource.namespaced and "list" in resource.verbs:
        yield _operation(resource, definitions, f"{root}/{resource.plural}", _COLLECTION["list"])
    for verb in (verb for verb in _ITEM if verb in resource.verbs and verb != "create"):
        yield _operation(resource, definitions, f"{collection}/{{name}}", _ITEM[verb])
    for sub in resource.subresources.values():
        for verb in (verb for verb in _ITEM if verb in sub.verbs):
            yield _operation(resource, definitions, f"{collection}/{{name}}/{sub.name}", _ITEM[verb], sub)


def path_parameters(path: str, kind: str) -> tuple[Parameter, ...]:
    """Those that all methods of a path share."""
    name = Parameter("name", "string", f"name of the {kind}", "path")
    found = [name] if "{name}" in path else []
    return (*found, *([NAMESPACE] if "{namespace}" in path else []), PRETTY)


def group_tag(resource: Resource) -> str:
    """`apps_v1`, `fooExampleCom_v1`."""
    camel = _camel(resource.group)
    return f"{camel[:1].lower()}{camel[1:]}_{resource.version}"


def _camel(group: str) -> str:
    return "".join(word[:1].upper() + word[1:] for word in re.split(r"[.-]", (group or "core").removesuffix(".k8s.io")))


def _operation(
    resource: Resource,
    definitions: Definitions,
    path: str,
    words: tuple[str, str, str, str],
    sub: Subresource | None = None,
) -> Operation:
    method, action, verb, description = words
    connects = sub is not None and sub.name in CONNECT and sub.name != "log"
    action = "connect" if connects else action
    kind = sub.kind if sub else resource.kind
    scope = "Namespaced" if "{namespace}" in path else "ForAllNamespaces" if resource.namespaced else ""
    tail = sub.name.capitalize() if sub else ""
    return Operation(
        path=path,
        method=method,
        action=action,
        id=f"{verb}{_camel(resource.group)}{resource.version.capitalize()}{scope}{resource.kind}{tail}",
        description=description.format(kind if sub is None else f"{kind} at {sub.name}"),
        gvk=_gvk(resource, sub),
        body=_body(resource, definitions, action, sub),
        answer=_answer(resource, definitions, action, sub),
        parameters=_PARAMETERS[action],
        consumes=() if action in ("get", "list", "connect") else _consumes(resource, action),
        codes=_CODES.get(action, (200,)),
    )


def _gvk(resource: Resource, sub: Subresource | None) -> Json:
    """The kind that is sent there. A custom kind's scale is filed under the kind itself."""
    if sub is None or resource.custom:
        return {"group": resource.group, "version": resource.version, "kind": resource.kind}
    return {"group": sub.group or resource.group, "version": sub.version or resource.version, "kind": sub.kind}


def _consumes(resource: Resource, action: str) -> tuple[str, ...]:
    if action == "patch":
        return PATCHES if resource.custom else (*PATCHES, STRATEGIC)
    return ("application/json", "application/yaml")


def _schema_of(resource: Resource, definitions: Definitions, sub: Subresource | None) -> str:
    if sub is None or sub.kind == resource.kind:
        return definition_name(resource, definitions)
    return definitions.name_of(sub.group or resource.group, sub.version or resource.version, sub.kind) or ""


def _body(resource: Resource, definitions: Definitions, action: str, sub: Subresource | None) -> str:
    if action in ("get", "list", "connect"):
        return ""
    if action in ("delete", "deletecollection"):
        return f"{META}.DeleteOptions"
    return f"{META}.Patch" if action == "patch" else _schema_of(resource, definitions, sub)


def _answer(resource: Resource, definitions: Definitions, action: str, sub: Subresource | None) -> str:
    if action in ("delete", "deletecollection"):
        return f"{META}.Status"
    if action == "connect" or (sub is not None and sub.name == "log"):
        return ""
    return list_name(resource, definitions) if action == "list" else _schema_of(resource, definitions, sub)


def paths_of(
    resources: Iterable[Resource],
    definitions: Definitions,
    *,
    begin: Callable[[tuple[Parameter, ...]], Json],
    describe: Callable[[Operation, str], Json],
) -> tuple[dict[str, Json], set[str]]:
    """Every path with its operations, and the names of the schemas that these lead to. The two functions are the dialect's:
    how a path begins, given its parameters, and how one operation is described, given its tag."""
    paths: dict[str, Json] = {}
    names: set[str] = set()
    for resource in resources:
        names |= {definition_name(resource, definitions), list_name(resource, definitions)}
        for operation in operations(resource, definitions):
            names |= {operation.body, operation.answer}
            place = paths.setdefault(operation.path, begin(path_parameters(operation.path, resource.kind)))
            place[operation.method] = describe(operation, group_tag(resource))
    return paths, names
