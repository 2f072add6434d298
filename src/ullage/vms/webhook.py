"""Refuses backups and restores that cannot be, when they are created: with the field, and what to do instead.

The API is asked about VMs and backups, not a cache: they may be a moment old. What changes afterwards, and two restores that
are created in the same moment, the controllers notice.
"""

from __future__ import annotations

from typing import Final

from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.interface import Finder
from ullage.kube.errors import Cause
from ullage.kube.review import Answer, Decision, Hook, Review, Target
from ullage.kube.slices import Wiring
from ullage.vms.api.backups import VM_BACKUPS
from ullage.vms.api.machines import INSTANCES, VIRTUAL_MACHINES
from ullage.vms.api.restores import VM_RESTORES, VirtualMachineRestore
from ullage.vms.eligibility import BackupFacts, Refusal, RestoreFacts, review_backup, review_restore
from ullage.vms.lookup import BY_TARGET, restores_by_target
from ullage.vms.settings import Settings

TIMEOUT: Final = 10


def make_hooks(wiring: Wiring, settings: Settings) -> list[Hook]:
    made = []
    if settings.backups == "manage":
        made.append(_hook("vm-backup", Target.of(VM_BACKUPS, "CREATE"), BackupHook(wiring.client).answer))
    if settings.restores == "manage":
        hook = RestoreHook(wiring.client, wiring.shared(restores_by_target))
        made.append(_hook("vm-restore", Target.of(VM_RESTORES, "CREATE"), hook.answer))
    return made


def _hook(name: str, target: Target, answer: Answer) -> Hook:
    return Hook(name=name, phase="validate", targets=(target,), answer=answer, timeout=TIMEOUT, side_effects="None")


class BackupHook:
    def __init__(self, client: Finder) -> None:
        self._client = client

    async def answer(self, review: Review) -> Decision:
        backup, namespace = review.object(VM_BACKUPS), review.namespace
        name = backup.spec.source.name
        facts = BackupFacts(
            namespace=namespace,
            backup=backup,
            machine=await self._client.find(VIRTUAL_MACHINES, name, namespace) if name else None,
            instance=await self._client.find(INSTANCES, name, namespace) if name else None,
        )
        return _answer(review_backup(facts))


class RestoreHook:
    def __init__(self, client: Finder, restores: Cache[VirtualMachineRestore]) -> None:
        self._client = client
        self._restores = restores

    async def answer(self, review: Review) -> Decision:
        restore, namespace = review.object(VM_RESTORES), review.namespace
        target, backup = restore.spec.target.name, restore.spec.virtual_machine_backup_name
        facts = RestoreFacts(
            namespace=namespace,
            restore=restore,
            backup=await self._client.find(VM_BACKUPS, backup, namespace) if backup else None,
            machine=await self._client.find(VIRTUAL_MACHINES, target, namespace) if target else None,
            instance=await self._client.find(INSTANCES, target, namespace) if target else None,
            others=self._restores.by(BY_TARGET, str(Key(namespace, target))),
        )
        return _answer(review_restore(facts))


def _answer(refusal: Refusal | None) -> Decision:
    if refusal is None:
        return Decision.allow()
    cause = Cause(field=refusal.field, reason=refusal.reason, message=refusal.problem)
    return Decision.invalid(f"{refusal.field}: {refusal.problem}", cause)
