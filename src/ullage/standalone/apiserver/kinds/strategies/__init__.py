"""What the server does to the built-in kinds beyond their schemas: defaults, first status, validation, what may change.

    strategy(group, kind)        the kind's Strategy; GENERIC for all others and for custom kinds
    resize_refusal(...)          whether a claim may grow

One module for each family of kinds; each ends in a table that is put together here. `base` has what they are made of.
"""

from __future__ import annotations

from ullage.standalone.apiserver.kinds.strategies import basics, networking, policies, quotas, roles, services
from ullage.standalone.apiserver.kinds.strategies.admission import policies as admission_policies
from ullage.standalone.apiserver.kinds.strategies.admission import webhooks
from ullage.standalone.apiserver.kinds.strategies.base import Strategy
from ullage.standalone.apiserver.kinds.strategies.storage import claims, volumes
from ullage.standalone.apiserver.kinds.strategies.storage.claims import resize_refusal
from ullage.standalone.apiserver.kinds.strategies.workloads import apps as workloads
from ullage.standalone.apiserver.kinds.strategies.workloads import jobs, pods

GENERIC = Strategy()

STRATEGIES: dict[tuple[str, str], Strategy] = {
    **basics.STRATEGIES,
    **quotas.STRATEGIES,
    **claims.STRATEGIES,
    **volumes.STRATEGIES,
    **pods.STRATEGIES,
    **workloads.STRATEGIES,
    **jobs.STRATEGIES,
    **services.STRATEGIES,
    **networking.STRATEGIES,
    **roles.STRATEGIES,
    **webhooks.STRATEGIES,
    **admission_policies.STRATEGIES,
    **policies.STRATEGIES,
}


def strategy(group: str, kind: str) -> Strategy:
    return STRATEGIES.get((group, kind), GENERIC)


__all__ = ["GENERIC", "STRATEGIES", "Strategy", "resize_refusal", "strategy"]
