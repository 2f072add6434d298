"""`ullage install`: brings a cluster to what the manifests say, and touches nothing that is not ours.

Idempotent: an object that is as it was applied is not written at all. That keeps a restart of `ullage up` out of reach of hooks
that are registered and not served yet. Definitions are created with POST, so that one which somebody else creates at the same
moment is found, not merged into; everything else is applied.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from ullage.app.installer.manifests import DIGEST, ROLE_TEMPLATES, Manifest
from ullage.app.installer.outcomes import Outcome, Report, Verb
from ullage.clock import Clock, SystemClock
from ullage.errors import Terminal
from ullage.kube.builtin.admissionregistration import POLICIES, POLICY_BINDINGS
from ullage.kube.builtin.apiextensions import DEFINITIONS
from ullage.kube.builtin.core import NAMESPACES
from ullage.kube.builtin.flowcontrol import FLOW_SCHEMAS, PRIORITY_LEVELS
from ullage.kube.client.client import Client
from ullage.kube.client.codec import APPLY_PATCH
from ullage.kube.crds.definitions import MANAGED_BY, is_ours
from ullage.kube.errors import AlreadyExists, ApiError, NotFound
from ullage.kube.kinds import Kind
from ullage.kube.objects import Json

# Whether a definition that is not ours will do: a pure comparison with the one that we would have made. Only what we
# read and write counts: a served version, the scope, the status subresource, and each field that our types name.


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


MANAGER: Final = "ullage-install"
ESTABLISH_SECONDS: Final = 30.0
POLL_SECONDS: Final = 0.1
_OF_THE_SERVER: Final = ("resourceVersion", "managedFields", "generation", "uid", "creationTimestamp")


_OPTIONAL: Final[Mapping[Kind[Any], str]] = {  # kinds that a cluster may lack, and what that means
    ROLE_TEMPLATES: "this cluster has no Rancher, which would give them out",
    PRIORITY_LEVELS: "this cluster does not order requests by priority",
    FLOW_SCHEMAS: "this cluster does not order requests by priority",
    POLICIES: "this cluster has no such policies (Kubernetes 1.30 and newer do): who edits an object is not checked",
    POLICY_BINDINGS: "this cluster has no such policies (Kubernetes 1.30 and newer do): who edits an object is not checked",
}


class Installer:
    def __init__(self, client: Client, *, dry_run: bool = False, clock: Clock | None = None) -> None:
        self._client = client
        self._dry_run = dry_run
        self._clock = clock or SystemClock()
        self._missing_namespaces: set[str] = set()  # of a dry run: those that would have been created

    async def install(self, manifests: Sequence[Manifest], *, tell: Report) -> list[Outcome]:
        """One outcome for each manifest, told as it comes. What the server refuses is a problem of that one object; a server
        that does not answer is raised."""
        outcomes = []
        for manifest in manifests:
            try:
                outcome = await self._settle(manifest)
            except ApiError as error:
                if not isinstance(error, Terminal):
                    raise
                outcome = _outcome("problem", manifest, error.message)
            tell(outcome)
            outcomes.append(outcome)
        return outcomes

    async def _settle(self, manifest: Manifest) -> Outcome:
        if manifest.namespace in self._missing_namespaces:
            return _outcome("created", manifest)
        without = _OPTIONAL.get(manifest.kind)
        if without is not None and not await self._client.served(manifest.kind):
            return _outcome("absent", manifest, without)
        live = await self._read(manifest)
        if live is None:
            return await self._create(manifest)
        if live["metadata"].get("deletionTimestamp"):
            return _outcome("problem", manifest, "is being deleted; install again when it is gone")
        if not is_ours(live):
            return _not_ours(manifest, live)
        if _as_applied(live, manifest.body):
            return await self._established(_outcome("unchanged", manifest), manifest)
        written = await self._apply(manifest)
        same = _content(written) == _content(live)
        return await self._established(_outcome("unchanged" if same else "changed", manifest), manifest)

    async def _create(self, manifest: Manifest) -> Outcome:
        if not manifest.brought:
            return _outcome("absent", manifest, "belongs to another product; counts as empty until that is installed")
        if manifest.kind is DEFINITIONS:
            try:
                await self._post(manifest)
            except AlreadyExists:
                return await self._settle(manifest)
        else:
            await self._apply(manifest)
        if self._dry_run and manifest.kind is NAMESPACES:
            self._missing_namespaces.add(manifest.name)
        return await self._established(_outcome("created", manifest), manifest)

    async def _established(self, outcome: Outcome, manifest: Manifest) -> Outcome:
        """Waits until a definition is served: what comes next may need the kind."""
        if manifest.kind is not DEFINITIONS or self._dry_run:
            return outcome
        deadline = self._clock.monotonic() + ESTABLISH_SECONDS
        while True:
            conditions = _conditions(await self._read(manifest) or {})
            if conditions.get("Established", {}).get("status") == "True":
                return outcome
            if conditions.get("NamesAccepted", {}).get("status") == "False":
                return _outcome("problem", manifest, f"not served: {conditions['NamesAccepted'].get('message', '')}")
            if self._clock.monotonic() > deadline:
                return _outcome("problem", manifest, f"not served after {ESTABLISH_SECONDS:.0f} s")
            await asyncio.sleep(POLL_SECONDS)

    # --- the wire ----------------------------------------------------------------------------------------------------

    async def _read(self, manifest: Manifest) -> Json | None:
        try:
            return _decoded(await self._client.request("GET", _path(manifest)))
        except NotFound:
            return None

    async def _post(self, manifest: Manifest) -> None:
        body = msgspec.json.encode(manifest.body)
        await self._client.request("POST", manifest.kind.path(manifest.namespace), query=self._query(), body=body)

    async def _apply(self, manifest: Manifest) -> Json:
        answer = await self._client.request(
            "PATCH",
            _path(manifest),
            query=self._query() | {"force": "true"},
            body=msgspec.json.encode(manifest.body),
            content_type=APPLY_PATCH,
        )
        return _decoded(answer)

    def _query(self) -> dict[str, str]:
        return {"fieldManager": MANAGER, **({"dryRun": "All"} if self._dry_run else {})}


def _not_ours(manifest: Manifest, live: Json) -> Outcome:
    whose = f"managed by {manager}" if (manager := _labels(live).get(MANAGED_BY)) else "not ours"
    if manifest.kind is DEFINITIONS:
        faults = lacking(live, manifest.body, fields=manifest.whole)
        if faults:
            return _outcome("problem", manifest, f"{whose}, left as it is, but: {'; '.join(faults)}")
        return _outcome(
            "left alone", manifest, f"{whose}; {'it has every field that is needed' if manifest.whole else 'it is served'}"
        )
    if manifest.kind is NAMESPACES or covers(_content(live), _demands(manifest.body)):
        return _outcome("left alone", manifest, whose)
    return _outcome("problem", manifest, f"{whose}, left as it is, but it differs from what is needed")


def _demands(body: Json) -> Json:
    """What somebody else's object must have to do in the place of ours: all but the marks."""
    return {key: value for key, value in body.items() if key != "metadata"}


def _as_applied(live: Json, wanted: Json) -> bool:
    """Whether there is nothing to do. The digest tells that no field is left over from an older release; the comparison
    tells that nobody has changed one since."""
    applied = (live["metadata"].get("annotations") or {}).get(DIGEST)
    return applied == wanted["metadata"]["annotations"][DIGEST] and covers(live, wanted)


def covers(live: Any, wanted: Any) -> bool:
    """Whether everything wanted is there. Servers add defaults, and drop what is empty."""
    if isinstance(wanted, dict) and isinstance(live, dict):
        return all(covers(live[key], value) if key in live else value in ({}, []) for key, value in wanted.items())
    if isinstance(wanted, list) and isinstance(live, list):
        return len(live) == len(wanted) and all(covers(*pair) for pair in zip(live, wanted, strict=True))
    return type(live) is type(wanted) and bool(live == wanted)


def _content(obj: Json) -> Json:
    metadata = {key: value for key, value in obj.get("metadata", {}).items() if key not in _OF_THE_SERVER}
    return {**{key: value for key, value in obj.items() if key != "status"}, "metadata": metadata}


def _conditions(obj: Json) -> dict[str, Json]:
    return {condition["type"]: condition for condition in obj.get("status", {}).get("conditions") or ()}


def _labels(obj: Json) -> dict[str, str]:
    return obj.get("metadata", {}).get("labels") or {}


def _path(manifest: Manifest) -> str:
    return manifest.kind.path(manifest.namespace, manifest.name)


def _decoded(answer: bytes) -> Json:
    found: Json = msgspec.json.decode(answer)
    return found


def _outcome(verb: Verb, manifest: Manifest, why: str = "") -> Outcome:
    place = f"{manifest.namespace}/" if manifest.namespace else ""
    return Outcome(verb, manifest.kind.kind.lower(), f"{place}{manifest.name}", why)
