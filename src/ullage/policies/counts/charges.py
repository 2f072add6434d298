"""Which objects are snapshots, for the count; each counts as one.

- VolumeSnapshots of both APIs, in their namespace and for their claim, whoever made them and whatever has become of them:
  members of groups and of backups, imported ones (for no claim), those that failed, those that are being deleted.
- Snapshots inside volume engines that somebody asked for, in the namespace of the claim behind the volume, as long as no
  VolumeSnapshot or record pays for them: the annotations that Ullage alone writes tell. What engines make by themselves (for a
  rebuild, say) does not count, and none of these counts for a claim.

Records do not count: a tenant does not see them, and what one takes when its VolumeSnapshot is gone, its space tells.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from ullage.engines.api import ENGINE_SNAPSHOTS
from ullage.engines.api import Snapshot as EngineSnapshot
from ullage.engines.handles import NAMESPACE as ENGINE_NAMESPACE
from ullage.kube.kinds import Kind, Object
from ullage.kube.slices import Part, Wiring
from ullage.ledger.amounts import NOTHING, BadAmount, Takings
from ullage.ledger.charging.registry import Charged, registry_of
from ullage.ledger.charging.stamps import CHARGED_NAMESPACE, BadStamp, stamp_of
from ullage.ledger.keys import ledger_name
from ullage.ledger.service.limit_views import LimitEvaluator
from ullage.ledger.service.views import Evaluator
from ullage.policies.counts.accounts import one_of, together
from ullage.policies.counts.api import SNAPSHOT_LIMITS, SnapshotLimit
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.prototype.translation import PROTOTYPE
from ullage.snapshots.model import Dialect

DIALECTS: Final[tuple[Dialect[Any, Any], ...]] = (GA, PROTOTYPE)


def _namespace(obj: Object) -> str:
    return ledger_name(obj.metadata.namespace)


def _volume_snapshot(dialect: Dialect[Any, Any], obj: Any) -> Takings:
    return one_of(dialect.read_snapshot(obj).claim)


def _charged_namespace(snapshot: EngineSnapshot) -> str:
    """Elsewhere anybody may make such objects, and write on them what he likes: no engine looks there."""
    namespace = snapshot.metadata.annotations.get(CHARGED_NAMESPACE, "")
    return ledger_name(namespace) if namespace and snapshot.metadata.namespace == ENGINE_NAMESPACE else ""


def _engine_snapshot(snapshot: EngineSnapshot) -> Takings:
    return one_of() if snapshot.spec.create_snapshot and _pays(snapshot) else NOTHING


def _pays(snapshot: EngineSnapshot) -> bool:
    """Whether it stands for itself. Whoever counts its space says so if that cannot be read."""
    try:
        return bool(stamp_of(snapshot.metadata).cells)
    except (BadStamp, BadAmount):
        return False


COUNT_LIMITS: Final = LimitEvaluator[SnapshotLimit](ledger_of=_namespace, limits_of=lambda limit: together([limit]).cells)


def counted_kinds() -> dict[Kind[Any], Evaluator[Any]]:
    dialects = {one.snapshots: Evaluator(ledger_of=_namespace, takes=partial(_volume_snapshot, one)) for one in DIALECTS}
    return {**dialects, ENGINE_SNAPSHOTS: Evaluator(ledger_of=_charged_namespace, takes=_engine_snapshot)}


def counting() -> Part[Any]:
    """What every process counts, and the limits that every process sees."""
    counted = counted_kinds()

    def register(wiring: Wiring) -> Iterable[Charged[Any]]:
        registry = registry_of(wiring)
        registry.register_limits(SNAPSHOT_LIMITS, COUNT_LIMITS)
        return [registry.register(kind, evaluator) for kind, evaluator in counted.items()]

    return Part(make=register, watches=(SNAPSHOT_LIMITS, *counted))
