"""What `ullage install` applies, as values: definitions, a namespace, identities, roles, a priority level of our own.

Pure: slices in, objects out, the same ones for the same slices. Each carries our label, which says that we may change and
remove it, and a digest of what was applied, so that an install with nothing to do makes no write.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ullage.app.installer.names import DEFAULT, MASTER, Names
from ullage.app.installer.roles import API, CONTROLLER, WATCHING, WEBHOOK, WORLD, Role, Rule, granted, roles, rules_of
from ullage.kube import identities
from ullage.kube.builtin.admissionregistration import POLICIES, POLICY_BINDINGS
from ullage.kube.builtin.apiextensions import DEFINITIONS
from ullage.kube.builtin.core import NAMESPACES, SERVICE_ACCOUNTS
from ullage.kube.builtin.flowcontrol import FLOW_SCHEMAS, PRIORITY_LEVELS
from ullage.kube.builtin.rbac import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from ullage.kube.crds.definitions import MANAGED_BY, OURS, crd_of
from ullage.kube.kinds import Kind, Object
from ullage.kube.objects import Json
from ullage.kube.slices import Part, Slice, UserRole
from ullage.ledger.api import LEDGERS
from ullage.projects.api.quotas import PROJECT_QUOTAS

NAMESPACE: Final = identities.NAMESPACE
SIDECAR: Final = "ullage:csi-sidecar"
SECRETS_ROLE: Final = "ullage:secrets"
DIGEST: Final = "ullage.io/applied"
LABELS: Final[Mapping[str, str]] = {MANAGED_BY: OURS}
ROLE_TEMPLATES: Final[Kind[Object]] = Kind(
    "management.cattle.io", "v3", "RoleTemplate", "roletemplates", Object, namespaced=False, whole=False, status=False
)
PRECEDENCE: Final = 700  # before everything of tenants (kube-system's accounts stand at 900), after nodes and leader election


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object to apply. `brought` is False for a definition that belongs to another product and is only looked at; `whole`:
    it must have every field that our types have."""

    kind: Kind[Any]
    body: Json
    brought: bool = True
    whole: bool = True

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.body["metadata"].get("namespace", ""))


def manifests(
    slices: Sequence[Slice],
    *,
    foreign: bool = False,
    world: Slice | None = None,
    all_secrets: bool = False,
    names: Names = DEFAULT,
) -> list[Manifest]:
    """In the order in which they are applied. With `foreign`, the kinds of other products are brought along too: on one
    machine, where those products are not. There the `world` has an identity as well. Without `all_secrets` the rights on
    Secrets are roles of their own: `secret_roles`. `names` are those of the objects that the processes make for themselves."""
    accounts = (CONTROLLER, WEBHOOK, API, *((WORLD,) if world else ()))
    return [
        _manifest(NAMESPACES, NAMESPACE),
        *definitions(slices, foreign=foreign),
        *_policies(slices),
        *(_manifest(SERVICE_ACCOUNTS, name, NAMESPACE) for name in accounts),
        *_roles(roles(slices, world=world, all_secrets=all_secrets, names=names)),
        *_grants((*slices, world) if world else slices),
        *user_roles(slices, rancher=not foreign),
        *_sidecars(slices, all_secrets=all_secrets),
        *_priority(),
    ]


def controller_alone(wanted: Sequence[Manifest]) -> list[Manifest]:
    """Without what other processes of ours are and may do: where there is none of them, and the cluster is its users'."""
    others = {name for account in (WEBHOOK, API) for name in (account, f"ullage:{account}")}
    level = (PRIORITY_LEVELS, FLOW_SCHEMAS)
    return [one for one in wanted if one.kind not in level and not _is_of(one.name, others)]


def _is_of(name: str, accounts: Collection[str]) -> bool:
    return any(name == one or name.startswith((f"{one}:", f"{one}-")) for one in accounts)


def definitions(slices: Sequence[Slice], *, foreign: bool = False) -> list[Manifest]:
    """One for each resource, whoever names it. Of several versions the first is the stored one."""
    brought = [kind for part in slices for kind in part.kinds]
    others = [kind for part in slices for kind in part.foreign]
    served = [kind for part in slices for kind in part.served]
    own = {kind.name for kind in brought} | ({kind.name for kind in (*others, *served)} if foreign else set())
    lenient = {kind.name for part in slices for kind in part.kinds if kind in part.served}
    whole = {kind.name for kind in (*brought, *others)} - lenient
    return [
        _stamped(Manifest(DEFINITIONS, crd_of(versions[0], others=versions[1:]), brought=name in own, whole=name in whole))
        for name, versions in _by_name((*brought, *others, *served)).items()
    ]


def _policies(slices: Sequence[Slice]) -> list[Manifest]:
    """Each with the binding that puts it in force, everywhere."""
    return [
        manifest
        for part in slices
        for policy in part.policies
        for manifest in (
            _manifest(POLICIES, policy.name, spec=policy.spec()),
            _manifest(POLICY_BINDINGS, policy.name, spec=policy.binding()),
        )
    ]


def _by_name(kinds: Iterable[Kind[Any]]) -> dict[str, list[Kind[Any]]]:
    found: dict[str, dict[str, Kind[Any]]] = {}
    for kind in kinds:
        found.setdefault(kind.name, {}).setdefault(kind.version, kind)
    return {name: list(versions.values()) for name, versions in found.items()}


def _manifest(kind: Kind[Any], name: str, namespace: str = "", *, labels: Json | None = None, **rest: Any) -> Manifest:
    place = {"namespace": namespace} if namespace else {}
    metadata: Json = {"name": name, **place, "labels": {**LABELS, **(labels or {})}}
    return _stamped(Manifest(kind, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **rest}))


def _stamped(manifest: Manifest) -> Manifest:
    body = manifest.body
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:16]
    annotations = {**body["metadata"].get("annotations", {}), DIGEST: digest}
    return replace(manifest, body={**body, "metadata": {**body["metadata"], "annotations": annotations}})


def secret_roles(by_namespace: Mapping[str, frozenset[str] | None]) -> list[Manifest]:
    """Rights to read Secrets, a role in each namespace: on these names, or on all that are there. The controller has them; an
    administrator binds whoever runs a sidecar too."""
    made = []
    for namespace, names in sorted(by_namespace.items()):
        rule = Rule("", ("secrets",), ("get",), tuple(sorted(names or ())))
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": ROLES.kind, "name": SECRETS_ROLE}
        made.append(_manifest(ROLES, SECRETS_ROLE, namespace, rules=[rule.as_json()]))
        made.append(_manifest(ROLE_BINDINGS, SECRETS_ROLE, namespace, roleRef=reference, subjects=[_subject(CONTROLLER)]))
    return made


def _roles(found: Iterable[Role]) -> list[Manifest]:
    made = []
    for role in found:
        where = NAMESPACE if role.here else role.namespace
        kind, binding = (ROLES, ROLE_BINDINGS) if where else (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS)
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind.kind, "name": role.name}
        made.append(_manifest(kind, role.name, where, rules=[rule.as_json() for rule in role.rules]))
        made.append(_manifest(binding, role.name, where, roleRef=reference, subjects=[_subject(role.account)]))
    return made


def master_account() -> list[Manifest]:
    """On a seed: who the master is there. It copies quotas, and divides limits among the ledgers of the seeds; that is all."""
    write = ("create", "update", "patch", "delete")
    quotas, ledgers = (PROJECT_QUOTAS.plural, f"{PROJECT_QUOTAS.plural}/status"), (LEDGERS.plural, f"{LEDGERS.plural}/status")
    everywhere = (
        Rule(PROJECT_QUOTAS.group, quotas, (*WATCHING, *write)),
        Rule(DEFINITIONS.group, (DEFINITIONS.plural,), ("list",), (PROJECT_QUOTAS.name, LEDGERS.name)),
    )
    here = (Rule(LEDGERS.group, ledgers, (*WATCHING, *write)),)
    name = f"ullage:{MASTER}"
    return [
        _manifest(SERVICE_ACCOUNTS, MASTER, NAMESPACE),
        *_roles((Role(name, MASTER, everywhere), Role(name, MASTER, here, here=True))),
    ]


def _grants(slices: Sequence[Slice]) -> list[Manifest]:
    """Roles that nobody is bound to: by these labels the cluster's own roles gather them."""
    return [
        _manifest(
            CLUSTER_ROLES,
            f"ullage:{one.name}:{grant.name}",
            labels={f"rbac.authorization.k8s.io/aggregate-to-{role}": "true" for role in grant.roles},
            rules=[rule.as_json() for rule in granted(grant)],
        )
        for one in slices
        for grant in one.grants
    ]


def user_roles(slices: Sequence[Slice], *, rancher: bool = True) -> list[Manifest]:
    """For administrators to bind; and the same for Rancher, where that is. On one machine it is not."""
    found = [role for one in slices for role in one.user_roles]
    roles = [_manifest(CLUSTER_ROLES, role.name, rules=[rule.as_json() for rule in granted(role)]) for role in found]
    return roles + [template for role in found if rancher for template in _template(role)]


def _template(role: UserRole) -> list[Manifest]:
    """In a Rancher's own words; `context` says where it is given out, on a cluster as a whole."""
    found = role.template
    if found is None:
        return []
    rest: dict[str, Any] = {
        "builtin": False,
        "external": False,
        "hidden": False,
        "context": "cluster",
        "displayName": found.title,
        "description": found.description,
        "rules": [rule.as_json() for rule in granted(role, found.verbs)],
    }
    return [_manifest(ROLE_TEMPLATES, found.name, **rest)]


def _sidecars(slices: Sequence[Slice], *, all_secrets: bool) -> list[Manifest]:
    """The role for administrators to give to the pods that a sidecar of ours runs in: what it does of all slices."""
    parts = [one.sidecar for one in slices if one.sidecar is not None]
    joined: Part[Any] = Part(
        make=lambda wiring: (),
        watches=tuple(dict.fromkeys(kind for part in parts for kind in part.watches)),
        writes=tuple(write for part in parts for write in part.writes),
        events=any(part.events for part in parts),
        secrets=any(part.secrets for part in parts),
    )
    rules = [rule.as_json() for rule in rules_of(joined, all_secrets=all_secrets)]
    return [_manifest(CLUSTER_ROLES, SIDECAR, rules=rules)] if parts else []


def _subject(account: str) -> Json:
    return {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}


def _priority() -> list[Manifest]:
    """A level of its own for both identities: a booking must not queue behind the tenants' requests that wait for it."""
    level = {
        "type": "Limited",
        "limited": {
            "nominalConcurrencyShares": 30,
            "lendablePercent": 50,
            "limitResponse": {"type": "Queue", "queuing": {"queues": 16, "handSize": 4, "queueLengthLimit": 100}},
        },
    }
    subjects = [
        {"kind": "ServiceAccount", "serviceAccount": {"name": name, "namespace": NAMESPACE}} for name in (CONTROLLER, WEBHOOK)
    ]
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": True}
    flow = {
        "priorityLevelConfiguration": {"name": "ullage"},
        "matchingPrecedence": PRECEDENCE,
        "distinguisherMethod": {"type": "ByUser"},
        "rules": [{"subjects": subjects, "resourceRules": [everything]}],
    }
    return [_manifest(PRIORITY_LEVELS, "ullage", spec=level), _manifest(FLOW_SCHEMAS, "ullage", spec=flow)]
