"""The sums of a ledger, as people would write them."""

from __future__ import annotations

from ullage.ledger.packing.sums import decode

Written = dict[str, dict[str, str]]


def counted(sums: str) -> dict[str, Written]:
    """By kind, account and resource, from `status.sums`."""
    return {kind: takings.written() for kind, takings in decode(sums, ledger="").counted.items()}
