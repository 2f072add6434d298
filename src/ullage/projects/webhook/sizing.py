"""What a Machine's spec costs, or why that cannot be told, in one value for all hooks. What would tell is looked up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ullage.errors import BadInput
from ullage.ledger.amounts import Amounts
from ullage.projects.machines.digests import digest
from ullage.projects.sizes.lookups import Unknown
from ullage.projects.sizes.source import SizeSource


@dataclass(frozen=True, slots=True)
class Sizing:
    """`amounts` is None where nobody can tell: then there is a `problem`, and `looked_up` says whether the provider is being
    asked. `fault`: no machine can be made of the spec."""

    amounts: Amounts | None
    problem: str = ""
    looked_up: bool = False
    fault: BadInput | None = None


def sized(sizes: SizeSource, cluster: str, provider_spec: Any) -> Sizing:
    """A spec that nothing can be signed for has no size: what it costs could not be stamped."""
    try:
        digest(provider_spec)
        found = sizes.size_of(cluster, provider_spec)
    except BadInput as error:
        return Sizing(None, str(error), fault=error)
    if not isinstance(found, Unknown):
        return Sizing(found)
    if found.lookup is not None:
        sizes.want(found.lookup)
    return Sizing(None, found.reason, looked_up=found.lookup is not None)
