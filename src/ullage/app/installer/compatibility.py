"""Whether a definition that is not ours will do: a pure comparison with the one that we would have made.

Only what we read and write counts: a served version, the scope, the status subresource, and each field that our types name.
"""

from __future__ import annotations

from collections.abc import Iterator

from ullage.kube.objects import Json

_OPEN = "x-kubernetes-preserve-unknown-fields"
_EITHER = "x-kubernetes-int-or-string"


def lacking(found: Json, wanted: Json, *, fields: bool = True) -> list[str]:
    """What is missing, one sentence each; nothing where all is there. Without `fields` scope and version are enough."""
    theirs, ours = found.get("spec", {}), wanted["spec"]
    if theirs.get("scope") != ours["scope"]:
        return [f"its scope is {theirs.get('scope')}, {ours['scope']} is needed"]
    versions = {version["name"]: version for version in theirs.get("versions", ())}
    return [fault for version in ours["versions"] for fault in _version(versions.get(version["name"]), version, fields=fields)]


def _version(found: Json | None, wanted: Json, *, fields: bool) -> Iterator[str]:
    name = wanted["name"]
    if found is None or not found.get("served"):
        yield f"{name} is not served"
        return
    if not fields:
        return
    if "status" in wanted.get("subresources", {}) and "status" not in found.get("subresources", {}):
        yield f"{name} has no status subresource"
    schema = found.get("schema", {}).get("openAPIV3Schema", {})
    for fault in _fields(schema, wanted["schema"]["openAPIV3Schema"], ""):
        yield f"{name}: {fault}"


def _fields(found: Json, wanted: Json, path: str) -> Iterator[str]:
    if not _same_type(found, wanted):
        yield f"{path} is {found['type']}, {wanted['type']} is needed"
        return
    for name, inner in wanted.get("properties", {}).items():
        there = found.get("properties", {}).get(name)
        here = f"{path}.{name}" if path else name
        if there is not None:
            yield from _fields(there, inner, here)
        elif not found.get(_OPEN) and "additionalProperties" not in found and (path or name not in _ALWAYS):
            yield f"{here} is missing"
    for holder in ("items", "additionalProperties"):
        if isinstance(wanted.get(holder), dict) and isinstance(found.get(holder), dict):
            yield from _fields(found[holder], wanted[holder], f"{path}[]")


_ALWAYS = ("apiVersion", "kind", "metadata")  # every object has them, whatever the schema says


def _same_type(found: Json, wanted: Json) -> bool:
    if found.get(_EITHER) or wanted.get(_EITHER) or "type" not in found or "type" not in wanted:
        return True
    return found["type"] == wanted["type"] or (found["type"], wanted["type"]) == ("integer", "number")
