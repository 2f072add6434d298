"""The `Warning` that goes with every answer about a kind, or a version of one, that its users should leave."""

from __future__ import annotations

from functools import lru_cache

from ullage.standalone.apiserver.about.discovery import version_rank
from ullage.standalone.apiserver.kinds.resources import Resource
from ullage.standalone.apiserver.objects import Json

_BUILTIN = {
    "componentstatuses": "v1 ComponentStatus is deprecated in v1.19+",
    "endpoints": "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
}


@lru_cache(maxsize=1024)
def deprecation(resource: Resource) -> str:
    """The warning, or nothing."""
    if resource.custom is None:
        return _BUILTIN.get(resource.group_resource, "")
    versions: list[Json] = resource.custom.get("versions") or []
    mine = next((each for each in versions if each["name"] == resource.version), {})
    if not mine.get("deprecated"):
        return ""
    if said := mine.get("deprecationWarning"):
        return str(said)
    text = f"{resource.api_version} {resource.kind} is deprecated"
    better = _successor(resource.version, versions)
    return f"{text}; use {resource.group}/{better} {resource.kind}" if better else text


def _successor(version: str, versions: list[Json]) -> str:
    """The newest version that is at least as stable, if there is one that is served and not deprecated itself."""
    fit = [each["name"] for each in versions if each.get("served") and not each.get("deprecated")]
    newer = [name for name in fit if version_rank(name) < version_rank(version)]
    return str(min(newer, key=version_rank)) if newer else ""
