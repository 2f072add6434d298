"""What a refusal says."""

from __future__ import annotations

from ullage.headroom.accounts import MAINTENANCE, VMS
from ullage.headroom.texts import exceeded_text, migrations_step, refusal_text, vms_step
from ullage.ledger.book import Over, Refusal
from ullage.quantity import Quantity


def over(account: str, resource: str, *amounts: str) -> Over:
    asked, used, reserved, limit = map(Quantity.parse, amounts)
    return Over(account=account, resource=resource, asked=asked, used=used, reserved=reserved, limit=limit)


def test_every_exceeded_resource_is_said_with_its_numbers_and_units() -> None:
    refusal = Refusal((over(VMS, "cpu", "1", "1500m", "0", "2"), over(VMS, "memory", "1222Mi", "2444Mi", "1222Mi", "2560Mi")))
    assert refusal_text(refusal, next_step=vms_step("team")) == (
        "VM available resources are insufficient: cpu: asked 1 core, used 1.5 cores, pending 0, share 2 cores; "
        "memory: asked 1.2Gi, used 2.39Gi, pending 1.2Gi, share 2.5Gi. "
        "Next: ullage usage -n team, then ullage vm stop NAME -n team, or have the quota raised"
    )


def test_what_moves_has_words_of_its_own() -> None:
    refusal = Refusal((over(MAINTENANCE, "cpu", "1", "1", "0", "1"),))
    assert refusal_text(refusal, next_step=migrations_step("team")) == (
        "maintenance resource is insufficient: cpu: asked 1 core, used 1 core, pending 0, share 1 core. "
        "Next: kubectl get vmim -n team, and try again when one of them has ended, or have the reserve raised"
    )


def test_while_the_quota_is_exceeded_it_is_said_what_may_be_done() -> None:
    assert exceeded_text("team").startswith(
        "namespace team exceeds its quota (harvesterhci.io/exceedsQuota): until it does not any more, VMs may be stopped,"
    )
