"""Discovery: what the server tells clients that it serves, so that `kubectl get widgets` knows where to go.

The same facts come in two forms. The older one is a tree of small documents: `/api`, `/apis`, `/apis/<group>` and one list for
each version. The newer one holds everything in two documents, and is asked for by its media type; kubectl accepts both.
"""

from __future__ import annotations

import hashlib
import platform
import re
import sys
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import replace

import msgspec

from ullage.standalone.apiserver.about.health import PATHS as HEALTH_PATHS
from ullage.standalone.apiserver.kinds.builtin import TRANSIENT
from ullage.standalone.apiserver.kinds.resources import Registry, Resource, Subresource
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.request.document import Document, etag_of, plain
from ullage.standalone.apiserver.schema.definitions import MINOR, VERSION

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
GIT_VERSION = f"{VERSION}+ullage"

# What is served beside the groups; `/` lists it.
ROOT_PATHS = (
    "/.well-known/openid-configuration",
    "/api",
    "/api/v1",
    "/apis",
    "/apis/",
    *HEALTH_PATHS,
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/",
    "/openid/v1/jwks",
    "/version",
)

# The order in which kube-apiserver lists a custom kind's verbs; a built-in one's stand by alphabet.
_CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_PLATFORM = f"{sys.platform}/{_MACHINES.get(platform.machine(), platform.machine())}"
_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")


class Discovery:
    """Every discovery document of a registry. Each is encoded when first asked for, and again when the registry has changed."""

    def __init__(self, registry: Registry, address: str = "") -> None:
        self._registry = registry
        self._address = address  # host:port at which clients reach the server
        self._generation = -1
        self._known: dict[tuple[str, bool], Document | None] = {}

    def answer(self, path: str, *, accept: str = "", if_none_match: str = "") -> Document | None:
        """The document at `/api`, `/apis` or below, or None if nothing of that name is served."""
        if self._generation != self._registry.generation:
            self._known, self._generation = {}, self._registry.generation
        key = path.rstrip("/"), wants_aggregated(accept)
        if key not in self._known:
            self._known[key] = self._build(*key)
        found = self._known[key]
        return found and found.answer_to(if_none_match)

    def _build(self, path: str, aggregated: bool) -> Document | None:
        registry = self._registry
        match path.split("/")[1:]:
            case ["api"] if aggregated:
                return _aggregated([group_discovery(registry, "")])
            case ["apis"] if aggregated:
                return _aggregated([group_discovery(registry, group) for group in sorted_groups(registry, by_version=False)])
            case ["api"]:
                return replace(plain(core_versions(self._address)), vary="Accept")
            case ["apis"]:
                return replace(plain(group_list(registry)), vary="Accept")
            case ["api", version]:
                return _plain_or_none(resource_list(registry, "", version))
            case ["apis", group] if group:
                return _plain_or_none(api_group(registry, group))
            case ["apis", group, version] if group:
                return _plain_or_none(resource_list(registry, group, version))
        return None


def _plain_or_none(content: Json | None) -> Document | None:
    return None if content is None else plain(content)


def _aggregated(groups: Iterable[Json]) -> Document:
    content = {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": list(groups)}
    body = msgspec.json.encode(content)
    return Document(body, AGGREGATED, etag_of(body), cache_control="public", vary="Accept")


def wants_aggregated(accept: str) -> bool:
    """Whether one of the acceptable media types is the newer form. It wins over plain JSON whatever their order."""
    for clause in accept.split(","):
        media, *parameters = (part.strip() for part in clause.split(";"))
        named = dict(part.split("=", 1) for part in parameters if "=" in part)
        wanted = (named.get("g"), named.get("v"), named.get("as"))
        if media == "application/json" and wanted == ("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList"):
            return True
    return False


def version_rank(version: str) -> tuple[int, int, int, str]:
    """Sorts versions as discovery does, best first: v2, v1, v1beta2, v1beta1, v1alpha1, then all other names by alphabet."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (3, 0, 0, version)
    major, stage, minor = match.groups()
    return ({None: 0, "beta": 1, "alpha": 2}[stage], -int(major), -int(minor or 0), "")


def sorted_versions(registry: Registry, group: str) -> list[str]:
    """A group's versions; the first is the preferred one."""
    found = {resource.version for resource in registry if resource.group == group}
    return sorted(found or registry.empty.get(group, ()), key=version_rank)


def sorted_groups(registry: Registry, *, by_version: bool) -> list[str]:
    """The named groups: built-in ones in the table's order, then the custom ones.

    The older form sorts those by `<version>.<group>` of their first version by alphabet, the newer one by name. It matters:
    where two groups have a kind of one name, kubectl takes the first.
    """
    custom: dict[str, str] = {}
    builtin: dict[str, None] = {}
    for resource in registry:
        if resource.group and not resource.custom:
            builtin[resource.group] = None
        elif resource.group:
            name = f"{resource.version}.{resource.group}" if by_version else resource.group
            custom[resource.group] = min(name, custom.get(resource.group, name))
    for group, versions in registry.empty.items():
        custom.setdefault(group, f"{versions[0]}.{group}" if by_version else group)
    return [*builtin, *sorted((group for group in custom if group not in builtin), key=custom.__getitem__)]


def core_versions(address: str) -> Json:
    """`/api`: the versions of the group without a name."""
    where = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": where}


def group_list(registry: Registry) -> Json:
    """`/apis`: every named group with its versions."""
    groups = [_group(registry, group) for group in sorted_groups(registry, by_version=True)]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def api_group(registry: Registry, group: str) -> Json | None:
    """`/apis/<group>`."""
    if not sorted_versions(registry, group):
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(registry, group)}


def _group(registry: Registry, group: str) -> Json:
    versions = [{"groupVersion": f"{group}/{version}", "version": version} for version in sorted_versions(registry, group)]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def resource_list(registry: Registry, group: str, version: str) -> Json | None:
    """`/api/v1` and `/apis/<group>/<version>`: the resources of one version, each followed by its subresources."""
    found = [resource for resource in registry if (resource.group, resource.version) == (group, version)]
    if not found and version not in registry.empty.get(group, ()):
        return None
    entries = [entry for resource in found for entry in _entries(resource)]
    if not group:  # the core list says no apiVersion of its own
        return {"kind": "APIResourceList", "groupVersion": version, "resources": entries}
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{group}/{version}", "resources": entries}


def _entries(resource: Resource) -> Iterable[Json]:
    entry: Json = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": _verbs(resource),
    }
    yield entry | _names(resource) | _storage_hash(resource)
    for sub in resource.subresources.values():
        other = {"group": sub.group, "version": sub.version} if sub.group else {}
        yield {
            "name": f"{resource.plural}/{sub.name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            **other,
            "kind": sub.kind,
            "verbs": sub.verbs,
        }


def _verbs(resource: Resource) -> list[str]:
    """A custom kind's verbs stand in an order of their own."""
    if resource.custom:
        return [verb for verb in _CUSTOM_VERBS if verb in resource.verbs]
    return list(resource.verbs)


def _names(resource: Resource) -> Json:
    named = {"shortNames": resource.short_names, "categories": resource.categories}
    return {key: value for key, value in named.items() if value}


def _storage_hash(resource: Resource) -> Json:
    """Tells storage migrators when the stored version has moved. Kinds that are not stored have none."""
    if "watch" not in resource.verbs or resource.group in TRANSIENT:
        return {}
    group, _, version = resource.storage_version.rpartition("/")
    digest = hashlib.sha256(f"{group}/{version}/{resource.kind}".encode()).digest()
    return {"storageVersionHash": b64encode(digest[:8]).decode()}


def group_discovery(registry: Registry, group: str) -> Json:
    """One group in the newer form. The core group's metadata has no name."""
    versions = [
        {"version": version, "resources": _discovered(registry, group, version), "freshness": "Current"}
        for version in sorted_versions(registry, group)
    ]
    return {"metadata": {"name": group} if group else {}, "versions": versions}


def _discovered(registry: Registry, group: str, version: str) -> list[Json]:
    found = [resource for resource in registry if (resource.group, resource.version) == (group, version)]
    return [_discovered_resource(resource) for resource in sorted(found, key=lambda resource: resource.plural)]


def _discovered_resource(resource: Resource) -> Json:
    entry: Json = {
        "resource": resource.plural,
        "responseKind": _response_kind(resource),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": _verbs(resource),
        **_names(resource),
    }
    if resource.subresources:
        entry["subresources"] = [
            {"subresource": sub.name, "responseKind": _response_kind(resource, sub), "verbs": sub.verbs}
            for sub in resource.subresources.values()
        ]
    return entry


def _response_kind(resource: Resource, sub: Subresource | None = None) -> Json:
    """Empty group and version mean the list's own; only custom kinds spell them out."""
    if sub is not None and sub.group:
        return {"group": sub.group, "version": sub.version, "kind": sub.kind}
    own = (resource.group, resource.version) if resource.custom else ("", "")
    return {"group": own[0], "version": own[1], "kind": sub.kind if sub else resource.kind}


def version_info() -> Json:
    """`/version`. Clients parse `major`, `minor` and `gitVersion`; the rest must be there."""
    return {
        "major": "1",
        "minor": str(MINOR),
        "emulationMajor": "1",
        "emulationMinor": str(MINOR),
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": str(MINOR - 1),
        "gitVersion": GIT_VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": platform.python_implementation().lower(),
        "platform": _PLATFORM,
    }


def root_paths(registry: Registry, extra: Iterable[str] = ROOT_PATHS) -> Json:
    """`/`: every path that is served without a resource's name in it."""
    groups = {f"/apis/{resource.group}" for resource in registry if resource.group}
    versions = {f"/apis/{resource.api_version}" for resource in registry if resource.group}
    return {"paths": sorted({*extra, *groups, *versions})}
