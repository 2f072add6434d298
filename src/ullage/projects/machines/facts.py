"""A Machine of a user cluster, as far as decisions about its stamp need it. Pure.

Who administers that cluster writes what he likes into every field here but three: the cluster, which is known from where the
object was read; the uid and the time of creation, which the API server sets and never changes. (The API servers of user
clusters run on the seed.) In an AdmissionReview even these three are only as good as whoever sent it: the path to the webhook
is known to whoever may read its registration.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ullage.ledger.amounts import Amounts
from ullage.quantity import Quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """`provider_spec` is the value of `spec.providerSpec` as decoded JSON; `takes` and `signature` are annotations, None where
    there is none. While it is being created a Machine has no uid, and may have the beginning of a name alone."""

    cluster: str
    namespace: str
    name: str = ""
    generate_name: str = ""
    uid: str = ""
    created: datetime | None = None
    provider_spec: Any = None
    takes: str | None = None
    signature: str | None = None


@dataclass(frozen=True, slots=True)
class Room:
    """How one resource of a project stands on this seed. `limit` is None where there is none."""

    used: Quantity
    reserved: Quantity
    limit: Quantity | None


def times(amounts: Amounts, number: int) -> Amounts:
    """So often that much. A number of less than nothing is none."""
    return Amounts({name: Quantity(one.nanos * max(0, number), one.format) for name, one in amounts.cells.items()})
