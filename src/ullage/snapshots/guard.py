"""The finalizer `ullage.io/guard`, which people cannot take off a VolumeSnapshot.

A tenant with the role `edit` may take every other finalizer off and delete the snapshot. Its record and data then stay, and the
namespace pays for neither. The guard is on snapshots whose record is of a driver of ours. The API server itself refuses the
removal, with a ValidatingAdmissionPolicy, so that no process of ours has to run.
"""

from __future__ import annotations

from typing import Final

from ullage.clock import Clock
from ullage.kube.builtin.admissionregistration import POLICY_BINDINGS
from ullage.kube.client.client import Client
from ullage.kube.errors import ApiError
from ullage.kube.policies import Demand, Policy
from ullage.kube.slices import Write
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.prototype.translation import PROTOTYPE
from ullage.snapshots.model import GUARD

NAME: Final = "ullage-volumesnapshots"
READS: Final = (Write(POLICY_BINDINGS, ("get",)),)
ADMINISTRATORS: Final = "system:masters"
ASKED_EVERY: Final = 10.0  # seconds


def _finalizers(of: str) -> str:
    return f"(has({of}.metadata.finalizers) ? {of}.metadata.finalizers : [])"


POLICY: Final = Policy(
    name=NAME,
    kinds=(GA.snapshots, PROTOTYPE.snapshots),
    demands=(
        Demand(
            f"!('{GUARD}' in {_finalizers('oldObject')}) || '{GUARD}' in {_finalizers('object')} || "
            f"(has(request.userInfo.groups) && '{ADMINISTRATORS}' in request.userInfo.groups)",
            f"metadata.finalizers: {GUARD} stays until the data is deleted: delete the VolumeSnapshot, and Ullage takes it "
            f"off. Where Ullage is gone for good, an administrator takes it off, as a member of {ADMINISTRATORS} or after "
            f"kubectl delete validatingadmissionpolicybindings {NAME}",
        ),
    ),
)


class PolicyWatch:
    """Tells whether the policy is in force. Without it the guard would hold snapshots up and guard nothing: the installation is
    being taken away, or the API server is older than such policies (Kubernetes 1.30)."""

    def __init__(self, client: Client, *, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._in_force = False
        self._asked: float | None = None

    async def in_force(self) -> bool:
        """Asks the API every 10 s at most. Without an answer, or without the right to ask, no guard is put on."""
        now = self._clock.monotonic()
        if self._asked is None or now - self._asked >= ASKED_EVERY:
            self._asked = now
            try:
                self._in_force = await self._client.find(POLICY_BINDINGS, NAME) is not None
            except ApiError:
                self._in_force = False
        return self._in_force
