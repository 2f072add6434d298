"""The slice as one value: what is counted, the hook that has limits hold, and the controllers that keep all true. The hooks of
`space` admit snapshots: what one takes is booked in one go."""

from __future__ import annotations

from typing import Any

from ullage.kube.controller.controller import Controller
from ullage.kube.slices import Part, Slice, Wiring
from ullage.ledger.api import LEDGERS
from ullage.ledger.api import NAMESPACE as LEDGER_NAMESPACE
from ullage.ledger.charging.registry import registry_of
from ullage.policies.counts.api import SNAPSHOT_LIMITS
from ullage.policies.counts.candidates import Candidates
from ullage.policies.counts.charges import counting
from ullage.policies.counts.controllers import limit_enforce as enforce
from ullage.policies.counts.controllers import limit_status as status
from ullage.policies.counts.controllers import snapshot_evict as evict
from ullage.policies.counts.lookup import LimitLookup
from ullage.policies.counts.roles import GRANTS, USER_ROLES
from ullage.policies.counts.webhook.limits import make_hooks


def make_controllers(wiring: Wiring) -> list[Controller[Any]]:
    limits, ledgers = wiring.cache(SNAPSHOT_LIMITS), wiring.cache(LEDGERS, namespace=LEDGER_NAMESPACE)
    lookup, recorder = wiring.shared(LimitLookup), wiring.recorder("counts")
    enforcer = enforce.CountEnforcer(wiring.client, limits, ledgers, lookup=lookup)
    shown = status.CountStatus(
        wiring.client,
        status.CountStatusCaches(limits=limits, ledgers=ledgers),
        lookup=lookup,
        recorder=recorder,
        clock=wiring.clock,
    )
    evictor = evict.Evictor(
        wiring.client,
        ledgers,
        registry=registry_of(wiring),
        limits=lookup,
        candidates=wiring.shared(Candidates),
        recorder=recorder,
        clock=wiring.clock,
    )
    return [one.controller(metrics=wiring.metrics) for one in (enforcer, shown, evictor)]


def counts() -> Slice:
    return Slice(
        name="counts",
        kinds=(SNAPSHOT_LIMITS,),
        shared=counting(),
        controllers=Part(
            make=make_controllers,
            watches=tuple(dict.fromkeys((*enforce.WATCHES, *status.WATCHES, *evict.WATCHES))),
            writes=(*enforce.WRITES, *status.WRITES, *evict.WRITES),
            events=True,
        ),
        hooks=Part(make=make_hooks, watches=(SNAPSHOT_LIMITS,)),
        grants=GRANTS,
        user_roles=USER_ROLES,
    )
