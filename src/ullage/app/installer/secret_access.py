"""Rights on Secrets, kept in step with a cluster's classes: a role in each namespace that a class names, and none elsewhere."""

from __future__ import annotations

from ullage.app.installer.installer import Installer
from ullage.app.installer.manifests import SECRETS_ROLE, secret_roles
from ullage.app.installer.named_secrets import NamedSecrets, named_secrets, read_naming
from ullage.app.installer.outcomes import Outcome, Report
from ullage.kube.builtin.core import NAMESPACES
from ullage.kube.builtin.rbac import ROLE_BINDINGS, ROLES
from ullage.kube.client.client import Client
from ullage.kube.crds.definitions import MANAGED_BY, OURS

ASK = "install with --all-secrets, or name the namespace in the class"


class SecretAccess:
    def __init__(self, client: Client, *, dry_run: bool = False) -> None:
        self._client = client
        self._dry_run = dry_run

    async def keep(self, *, tell: Report, drivers: frozenset[str] | None = None, all_secrets: bool = False) -> list[Outcome]:
        """What a role cannot give is told. With `all_secrets` the cluster role has it all, and these roles go."""
        found = NamedSecrets() if all_secrets else named_secrets(await read_naming(self._client), drivers=drivers)
        outcomes = [
            Outcome("left alone", "secrets", "", f"{one} takes its Secret from a namespace that each request chooses; {ASK}")
            for one in found.templates
        ]
        there = {name for name in found.by_namespace if await self._client.find(NAMESPACES, name) is not None}
        outcomes += [
            Outcome("absent", "namespace", name, "a class names Secrets in it; install again when it is there")
            for name in sorted(found.by_namespace.keys() - there)
        ]
        for outcome in outcomes:
            tell(outcome)
        wanted = secret_roles({name: names for name, names in found.by_namespace.items() if name in there})
        outcomes += await Installer(self._client, dry_run=self._dry_run).install(wanted, tell=tell)
        return outcomes + await self._remove_others(there, tell)

    async def _remove_others(self, kept: set[str], tell: Report) -> list[Outcome]:
        outcomes = []
        for kind in (ROLE_BINDINGS, ROLES):
            for one in (await self._client.list(kind, labels=f"{MANAGED_BY}={OURS}")).items:
                meta = one.metadata
                if meta.name != SECRETS_ROLE or meta.namespace in kept:
                    continue
                await self._client.delete(kind, meta.name, meta.namespace, uid=meta.uid, dry_run=self._dry_run)
                why = "no class names a Secret there"
                outcomes.append(Outcome("deleted", kind.kind.lower(), f"{meta.namespace}/{meta.name}", why))
                tell(outcomes[-1])
        return outcomes
