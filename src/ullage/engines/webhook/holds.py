"""The hook that refuses the deletion of what is held: a Snapshot with the data of a VolumeSnapshot, and the Volume below it.

Only held objects are sent here, so everything else can be deleted while the webhook is away. Our own controllers delete held
Snapshots, since the record that holds one may be what has it deleted. A held Volume is nobody's to delete: whoever looked a
moment ago may have seen no hold yet.
"""

from __future__ import annotations

from typing import Final

from ullage.engines.api import SNAPSHOTS, VOLUMES, Snapshot, Volume
from ullage.engines.holds import PREFIX, Hold, holds_of, listed
from ullage.kube.errors import Cause
from ullage.kube.identities import OWN, is_own
from ullage.kube.review import Decision, Hook, Review, Target

_OURS: Final = ", ".join(f"'{name}'" for name in sorted(OWN))
_HELD: Final = (
    "has(oldObject.metadata.annotations) && "
    f"oldObject.metadata.annotations.exists(key, key.startsWith('{PREFIX}')) && "
    f"(request.resource.resource == '{VOLUMES.plural}' || !(request.userInfo.username in [{_OURS}]))"
)


async def answer(review: Review) -> Decision:
    volumes = review.kind.kind == VOLUMES.kind
    found: Volume | Snapshot | None = review.old(VOLUMES) if volumes else review.old(SNAPSHOTS)
    holds = holds_of(found.metadata) if found is not None else ()
    if not holds or (is_own(review) and not volumes):
        return Decision.allow()
    problem = refusal(review.kind.kind.lower(), review.name, holds)
    return Decision.refuse(problem, causes=(Cause("metadata.annotations", "FieldValueForbidden", problem),))


def refusal(what: str, name: str, holds: tuple[Hold, ...]) -> str:
    kept = sorted({one.kept_by for one in holds if one.kept_by})
    records = f" ({kept[0]})" if len(kept) == 1 else ""
    said = f"{what} {name} is held by {listed(holds)}{records}, and its data would be lost; "
    if not kept:
        return said + f"take the annotation off first: {PREFIX}{holds[0].id}"
    kinds = " or ".join(sorted({one.partition("/")[0] for one in kept}))
    return said + f"delete the VolumeSnapshot first, and where that leaves its {kinds} (policy Retain), that one too"


HOOK: Final = Hook(
    name="engine-held",
    phase="validate",
    targets=(Target.of(SNAPSHOTS, "DELETE"), Target.of(VOLUMES, "DELETE")),
    answer=answer,
    only_if={"held": _HELD},
    side_effects="None",
)
