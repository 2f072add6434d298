"""What an object pays for others: each of them with its bytes, in the annotation `ullage.io/plan`. Pure.

A backup has one for the claims that it is of. It is written where the backup is admitted and where it is made, and read by
whoever counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from ullage.kube.kinds import Meta
from ullage.ledger.charging.stamps import PLAN

Plan = Mapping[str, int]  # bytes, by claim

_decoder: Final = msgspec.json.Decoder(dict[str, int])


def write_plan(plan: Plan) -> str:
    """Equal plans always give the same text."""
    return msgspec.json.encode(dict(sorted(plan.items()))).decode()


def read_plan(meta: Meta) -> Plan:
    """What cannot be read names no claim."""
    try:
        return _decoder.decode(meta.annotations.get(PLAN, "{}"))
    except (msgspec.DecodeError, UnicodeEncodeError):
        return {}
