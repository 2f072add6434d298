"""Tells the API server which requests to send here: the two webhook configurations, built from what the hooks declare.

They are applied last, by a process that serves already, and are not put back if somebody deletes them: deleting them is how an
administrator gets out of trouble with a webhook. The self-test says then that nothing arrives; a restart registers again.

Others may have put entries into them (a tool that audits, a person). Those are theirs: they are told of, and neither read nor
changed.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from ullage.admission.callers import Caller, path_of
from ullage.kube.builtin.admissionregistration import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, WebhookConfiguration
from ullage.kube.client.client import Client
from ullage.kube.kinds import Kind
from ullage.kube.objects import Json
from ullage.kube.review import Hook, Target

DOMAIN: Final = "webhook.ullage.io"
GROUP: Final = "admissionregistration.k8s.io"
MANAGER: Final = "ullage-webhook"
BUNDLE: Final = "caBundle"
NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
OURS: Final = {"app.kubernetes.io/managed-by": "ullage"}


@dataclass(frozen=True, slots=True)
class ByUrl:
    """On one machine: `https://127.0.0.1:9443`."""

    base: str

    @property
    def hosts(self) -> tuple[str, ...]:
        return (urlsplit(self.base).hostname or "",)

    def client_config(self, path: str) -> Json:
        return {"url": self.base.rstrip("/") + path}


@dataclass(frozen=True, slots=True)
class ByService:
    """In a cluster. API servers call it by its short name; the others are for people and probes."""

    namespace: str
    name: str
    port: int = 443

    @property
    def hosts(self) -> tuple[str, ...]:
        short = f"{self.name}.{self.namespace}.svc"
        return (short, f"{short}.cluster.local", f"{self.name}.{self.namespace}")

    def client_config(self, path: str) -> Json:
        return {"service": {"namespace": self.namespace, "name": self.name, "port": self.port, "path": path}}


Address = ByUrl | ByService


@dataclass(frozen=True, slots=True)
class Registration:
    """What is to be registered. `name` is that of both configurations; `caller` is the other cluster that it is for."""

    name: str
    hooks: tuple[Hook, ...]
    address: Address
    labels: Mapping[str, str] = field(default_factory=dict)
    caller: Caller | None = None
    tokens: Mapping[str, str] = field(default_factory=dict, repr=False)  # of the paths in our own cluster, by hook

    def __post_init__(self) -> None:
        for hook in self.hooks:
            if hook.elsewhere != (self.caller is not None):
                raise ValueError(
                    f"hook {hook.name}: it is for {'other clusters' if hook.elsewhere else 'our own cluster'} alone"
                )

    def configuration(self, kind: Kind[WebhookConfiguration], bundle: bytes) -> Json | None:
        """The whole object, or None where no hook is of its phase."""
        phase = "mutate" if kind is MUTATING_WEBHOOKS else "validate"
        entries = [self._entry(hook, bundle) for hook in self.hooks if hook.phase == phase]
        return self.empty(kind) | {"webhooks": entries} if entries else None

    def empty(self, kind: Kind[WebhookConfiguration]) -> Json:
        return {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": self.name, "labels": {**self.labels, **OURS}},
            "webhooks": [],
        }

    def _entry(self, hook: Hook, bundle: bytes) -> Json:
        encoded = base64.b64encode(bundle).decode()
        path = path_of(hook, self.caller, token=self.tokens.get(hook.name, ""))
        entry: Json = {
            "name": entry_name(hook),
            "clientConfig": self.address.client_config(path) | {BUNDLE: encoded},
            "rules": [_rule(target) for target in hook.targets],
            "namespaceSelector": _namespaces(hook),
            "objectSelector": {"matchLabels": dict(hook.labels)} if hook.labels else {},
            "matchPolicy": "Equivalent",
            "failurePolicy": hook.failure_policy,
            "sideEffects": hook.side_effects,
            "timeoutSeconds": hook.timeout,
            "admissionReviewVersions": ["v1"],
        }
        if hook.only_if:
            entry["matchConditions"] = [{"name": name, "expression": rule} for name, rule in hook.only_if.items()]
        if hook.phase == "mutate":
            entry["reinvocationPolicy"] = "IfNeeded" if hook.reinvoke else "Never"
        return entry


@dataclass(frozen=True, slots=True)
class Published:
    """The registration as it was read. `versions` are by kind; a configuration that is not there has none."""

    versions: Mapping[str, str]
    bundles: frozenset[str]
    missing: tuple[str, ...]  # entries of ours that are not registered
    foreign: tuple[str, ...] = ()  # entries that this registration has no hooks for
    shared: frozenset[str] = frozenset()  # the kinds of those that somebody else has entries in
    found: Mapping[str, WebhookConfiguration] = field(default_factory=dict, repr=False)  # by kind

    @property
    def bundle(self) -> bytes | None:
        """None: no entry of ours is registered. Empty: they do not agree."""
        if not self.bundles:
            return None
        return base64.b64decode(next(iter(self.bundles))) if len(self.bundles) == 1 else b""


async def read(client: Client, registration: Registration) -> Published:
    wanted = {entry_name(hook) for hook in registration.hooks}
    missing = set(wanted)
    found: dict[str, WebhookConfiguration] = {}
    bundles: set[str] = set()
    foreign: set[str] = set()
    shared: set[str] = set()
    for kind in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        one = await client.find(kind, registration.name)
        if one is None:
            continue
        found[kind.kind] = one
        for entry in one.webhooks:
            if (name := entry.get("name", "")) in wanted:
                missing.discard(name)
                bundles.add((entry.get("clientConfig") or {}).get(BUNDLE) or "")
                continue
            foreign.add(name)
            if not is_ours(name):
                shared.add(kind.kind)
    versions = {kind: one.metadata.resource_version for kind, one in found.items()}
    return Published(versions, frozenset(bundles), tuple(sorted(missing)), tuple(sorted(foreign)), frozenset(shared), found)


async def register(client: Client, registration: Registration, *, bundle: bytes, seen: Published) -> None:
    """Applies both configurations. Raises Conflict where one changed after it was `seen`: a bundle that was read from the
    Secret before somebody published a newer one must not overwrite that."""
    for kind in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        await _apply(client, registration, kind=kind, bundle=bundle, seen=seen)


async def republish(client: Client, registration: Registration, *, bundle: bytes, seen: Published) -> None:
    """The same, but only for what is registered: nothing that somebody has deleted comes back, and nothing is deleted."""
    for kind in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        if kind.kind in seen.versions and registration.configuration(kind, bundle) is not None:
            await _apply(client, registration, kind=kind, bundle=bundle, seen=seen)


async def _apply(
    client: Client, registration: Registration, *, kind: Kind[WebhookConfiguration], bundle: bytes, seen: Published
) -> None:
    version = seen.versions.get(kind.kind, "")
    wanted = registration.configuration(kind, bundle)
    if wanted is None and kind.kind in seen.shared:  # without ours: those of others stay
        wanted = registration.empty(kind)
    if wanted is not None:
        await client.patch(kind, registration.name, apply=wanted, field_manager=MANAGER, force=True, resource_version=version)
    elif version:  # an earlier release had hooks of this phase
        await client.delete(kind, registration.name, resource_version=version)


def entry_name(hook: Hook) -> str:
    return f"{hook.name}.{DOMAIN}"


def is_ours(name: str) -> bool:
    """Whether an entry is of a hook of ours, in whatever release."""
    return name.endswith(f".{DOMAIN}")


def _rule(target: Target) -> Json:
    return {
        "apiGroups": list(target.groups),
        "apiVersions": list(target.versions),
        "resources": list(target.resources),
        "operations": list(target.operations),
        "scope": target.scope,
    }


def _namespaces(hook: Hook) -> Json:
    """A namespace carries its own name as a label on every cluster, and nobody can take it off."""
    wanted: list[dict[str, Any]] = []
    for operator, names in (("NotIn", hook.not_in), ("In", hook.only_in)):
        if names:
            wanted.append({"key": NAMESPACE_NAME, "operator": operator, "values": list(names)})
    found: Json = {"matchLabels": dict(hook.namespace_labels)} if hook.namespace_labels else {}
    return {**found, "matchExpressions": wanted} if wanted else found
