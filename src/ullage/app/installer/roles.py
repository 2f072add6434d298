"""Who may do what: the roles of our identities, worked out from what the slices say that they need.

One role for each slice and part, so that a slice can be read, and left out, by itself. What the runtime needs for itself (the
lease, the webhook's certificate and registration) is a role too, bound to names wherever the API allows that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ullage.app.installer.names import DEFAULT, Names
from ullage.kube import identities
from ullage.kube.builtin.apiextensions import DEFINITIONS
from ullage.kube.kinds import Kind
from ullage.kube.objects import Json
from ullage.kube.slices import Grant, Part, Slice, UserRole
from ullage.ledger.api import LEDGERS

CONTROLLER: Final = identities.CONTROLLER
WEBHOOK: Final = identities.WEBHOOK
WORLD: Final = identities.WORLD
API: Final = identities.API
WATCHING: Final = ("get", "list", "watch")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a role. No names: all of them."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()

    def as_json(self) -> Json:
        rule: Json = {"apiGroups": [self.group], "resources": list(self.resources), "verbs": list(self.verbs)}
        return {**rule, "resourceNames": list(self.names)} if self.names else rule


@dataclass(frozen=True, slots=True)
class Role:
    """A role, and the one identity that has it. `here`: only in our own namespace. `namespace`: only in that one."""

    name: str
    account: str
    rules: tuple[Rule, ...]
    here: bool = False
    namespace: str = ""


def roles(
    slices: Sequence[Slice], *, world: Slice | None = None, all_secrets: bool = False, names: Names = DEFAULT
) -> list[Role]:
    """`world` plays the parts of a cluster's own controllers, as somebody else than ours. `all_secrets`: who reads Secrets may
    read any. `names` are those of the processes' own objects: the accounts are the same whatever a process does, so each set
    of names has roles of its own."""
    found = [_leading(names), _certificate(names), _registration(names), *_api(names)]
    if any(LEDGERS in one.kinds for one in slices):
        found.extend(_charging(names))
    if any(part.elsewhere for one in slices for part in (one.shared, one.hooks) if part is not None):
        rule = Rule("", ("secrets",), ("get",), (names.callers,))
        found.append(Role(f"ullage:webhook:callers{names.suffix}", WEBHOOK, (rule,), here=True))
    if world is not None and world.controllers is not None:
        found.append(Role(f"ullage:{WORLD}", WORLD, tuple(rules_of(world.controllers))))
    for one in slices:
        for account, part in ((CONTROLLER, one.controllers), (WEBHOOK, one.hooks)):
            needed = [wanted for wanted in (one.shared, part) if wanted is not None]
            rules = tuple(rules_of(*needed, all_secrets=all_secrets))
            if rules:
                found.append(Role(f"ullage:{account}:{one.name}", account, rules))
            if own := tuple(sorted({name for wanted in needed for name in wanted.own_secrets})):
                making = (Rule("", ("secrets",), ("create",)), Rule("", ("secrets",), WATCHING, own))
                found.append(Role(f"ullage:{account}:{one.name}", account, making, here=True))
            for namespace in sorted({name for wanted in needed for name in wanted.secrets_in}):
                reading = (Rule("", ("secrets",), WATCHING),)
                found.append(Role(f"ullage:{account}:{one.name}", account, reading, namespace=namespace))
        if one.routes is not None and (rules := tuple(rules_of(one.routes))):
            found.append(Role(f"ullage:{API}:{one.name}", API, rules))
    return found


def granted(grant: Grant | UserRole, verbs: tuple[str, ...] = ()) -> list[Rule]:
    """The rules of a role that nobody is bound to: the cluster's own roles gather it, or administrators bind it."""
    resources: dict[str, tuple[str, ...]] = {}
    for kind in grant.kinds:
        resources[kind.group] = (*resources.get(kind.group, ()), kind.plural)
    return [Rule(group, named, verbs or grant.verbs) for group, named in resources.items()]


def _leading(names: Names) -> Role:
    """Leader election. To create, no name can be demanded: a POST has none in its path."""
    group, resources = "coordination.k8s.io", ("leases",)
    rules = (Rule(group, resources, ("create",)), Rule(group, resources, ("get", "patch"), (names.lease,)))
    return Role(f"ullage:controller{names.suffix}", CONTROLLER, rules, here=True)


def _charging(names: Names) -> Iterator[Role]:
    """Each process that charges for something says so in a Lease of its own, which nobody can name before it runs."""
    for account in (CONTROLLER, WEBHOOK):
        rule = Rule("coordination.k8s.io", ("leases",), ("list", "create", "patch", "delete"))
        yield Role(f"ullage:{account}:charging{names.suffix}", account, (rule,), here=True)


def _certificate(names: Names) -> Role:
    rules = (
        Rule("", ("secrets", "configmaps"), ("create",)),  # the certificate, the paths; the self-test's dry run
        Rule("", ("secrets",), ("get", "update"), (names.certificate, names.paths)),
        Rule("", ("configmaps",), ("get", "patch"), (names.condition,)),
    )
    return Role(f"ullage:webhook{names.suffix}", WEBHOOK, rules, here=True)


def _registration(names: Names) -> Role:
    """An apply has the name in its path, so even creating is bound to it: nobody else's webhook can be put in."""
    resources = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
    rule = Rule("admissionregistration.k8s.io", resources, ("get", "create", "patch", "delete"), (names.registration,))
    return Role(f"ullage:webhook{names.suffix}", WEBHOOK, (rule,))


def _api(names: Names) -> list[Role]:
    """Its certificate; and to ask whose a token is, and what that one may do."""
    own = (
        Rule("", ("secrets",), ("create",)),
        Rule("", ("secrets",), ("get", "update"), (names.api_certificate,)),
        Rule("", ("configmaps",), ("get", "create", "patch"), (names.api_bundle,)),
    )
    asking = (
        Rule("authentication.k8s.io", ("tokenreviews",), ("create",)),
        Rule("authorization.k8s.io", ("subjectaccessreviews",), ("create",)),
    )
    return [Role(f"ullage:api{names.suffix}", API, own, here=True), Role("ullage:api", API, asking)]


def rules_of(*parts: Part[Any], all_secrets: bool = False) -> Iterator[Rule]:
    """What somebody needs who has all of these parts."""
    watched = [kind for part in parts for kind in part.watches]
    wanted: dict[tuple[str, str], dict[str, None]] = {}

    def want(kind: Kind[Any], subresource: str, verbs: Sequence[str]) -> None:
        resource = f"{kind.plural}/{subresource}" if subresource else kind.plural
        wanted.setdefault((kind.group, resource), {}).update(dict.fromkeys(verbs))

    for kind in watched:
        want(kind, "", WATCHING)
    for write in (write for part in parts for write in part.writes):
        for subresource in write.subresources:
            want(write.kind, subresource, write.verbs)
    for (group, resource), verbs in sorted(wanted.items()):
        yield Rule(group, (resource,), tuple(verbs))
    if defined := tuple(sorted({kind.name for kind in watched if "." in kind.group})):
        # A kind is believed to be gone only when its definition is. Asked for by name, so these and no others.
        yield Rule(DEFINITIONS.group, (DEFINITIONS.plural,), ("list",), defined)
    if named := tuple(sorted({name for part in parts for name in part.named_secrets})):
        # A list or watch by `metadata.name=…` is let through to whoever may read that name, and shows no others.
        yield Rule("", ("secrets",), WATCHING, named)
    if all_secrets and any(part.secrets for part in parts):
        yield Rule("", ("secrets",), ("get",))
    if any(part.events for part in parts):
        yield Rule("events.k8s.io", ("events",), ("get", "create", "patch"))
