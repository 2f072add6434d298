"""The kinds that take snapshot space: whose ledger each object is in, and what it takes there. Both stand on the object.

A VolumeSnapshot is in the ledger of its namespace. Records are in no namespace, and engine snapshots are all in one: an
annotation that Ullage alone writes names the namespace that pays. Without it they are in no ledger, since nobody pays, or
somebody else does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ullage.engines.api import ENGINE_SNAPSHOTS
from ullage.engines.handles import NAMESPACE as ENGINE_NAMESPACE
from ullage.kube.kinds import Kind, Object
from ullage.kube.slices import Part, Wiring
from ullage.ledger.amounts import Takings
from ullage.ledger.charging.registry import Charged, registry_of
from ullage.ledger.charging.stamps import CHARGED_NAMESPACE, read_stamp
from ullage.ledger.charging.waiting import place_of
from ullage.ledger.keys import ledger_name
from ullage.ledger.service.limit_views import LimitEvaluator
from ullage.ledger.service.views import Evaluator
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.prototype.translation import PROTOTYPE
from ullage.snapshots.model import Dialect
from ullage.space.api import HARVESTER_QUOTAS, ResourceQuota
from ullage.space.quota import limits_of
from ullage.vms.api.backups import VM_BACKUPS

DIALECTS: Final[tuple[Dialect[Any, Any], ...]] = (GA, PROTOTYPE)


def _takes(obj: Object) -> Takings:
    return read_stamp(obj.metadata)


def _snapshot_takes(obj: Object) -> Takings:
    return _takes(obj) + place_of(obj.metadata)


def _own_namespace(obj: Object) -> str:
    return ledger_name(obj.metadata.namespace)


def _charged_namespace(obj: Object) -> str:
    namespace = obj.metadata.annotations.get(CHARGED_NAMESPACE, "")
    return ledger_name(namespace) if namespace else ""


def _engine_snapshot(obj: Object) -> str:
    """Elsewhere anybody may make such objects, and write on them what he likes: no engine looks there."""
    return _charged_namespace(obj) if obj.metadata.namespace == ENGINE_NAMESPACE else ""


BY_NAMESPACE: Final = Evaluator[Any](ledger_of=_own_namespace, takes=_takes)
OF_SNAPSHOTS: Final = Evaluator[Any](ledger_of=_own_namespace, takes=_snapshot_takes)
BY_ANNOTATION: Final = Evaluator[Any](ledger_of=_charged_namespace, takes=_takes)
OF_ENGINES: Final = Evaluator[Any](ledger_of=_engine_snapshot, takes=_takes)


QUOTA_LIMITS: Final = LimitEvaluator[ResourceQuota](ledger_of=_own_namespace, limits_of=limits_of)


def charged_kinds(*, backups: bool) -> dict[Kind[Any], Evaluator[Any]]:
    """`backups`: those of virtual machines are ours, and pay for their members."""
    return {
        **{dialect.snapshots: OF_SNAPSHOTS for dialect in DIALECTS},
        **{dialect.records: BY_ANNOTATION for dialect in DIALECTS},
        ENGINE_SNAPSHOTS: OF_ENGINES,
        **({VM_BACKUPS: BY_NAMESPACE} if backups else {}),
    }


def charging(*, backups: bool) -> Part[Any]:
    """What every process counts, and the limits that every process sees."""
    charged = charged_kinds(backups=backups)

    def register(wiring: Wiring) -> Iterable[Charged[Any]]:
        registry = registry_of(wiring)
        registry.register_limits(HARVESTER_QUOTAS, QUOTA_LIMITS)
        return [registry.register(kind, evaluator) for kind, evaluator in charged.items()]

    return Part(make=register, watches=(HARVESTER_QUOTAS, *charged))
