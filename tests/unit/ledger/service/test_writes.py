"""What is sent for a booking: once encoded, without the limits, and never more than etcd takes."""

from __future__ import annotations

import asyncio
from random import Random
from uuid import UUID

import msgspec
import pytest

from tests.unit.ledger.service.test_service import process, simulated
from tests.unit.ledger.simulated import LEDGER, Server, creating, ledger, takes
from ullage.kube.client.codec import encode_status
from ullage.kube.kinds import Kind, Meta
from ullage.ledger.amounts import Cell, Takings
from ullage.ledger.api import LEDGERS, Count, Ledger, LedgerSpec, LedgerStatus
from ullage.ledger.book import Charge, Slot
from ullage.ledger.keys import key_of
from ullage.ledger.metrics import Metrics
from ullage.ledger.packing import pending, sums
from ullage.ledger.packing.sums import Sums
from ullage.ledger.service import writes
from ullage.ledger.service.decisions import Verdict
from ullage.ledger.service.service import Crowded, Service
from ullage.quantity import Quantity

ETCD = 3 * 2**19  # bytes, of a request with everything around the object


class Weighing(Server):
    """Knows what was sent."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[bytes] = []

    async def put_status(self, kind: Kind[Ledger], metadata: Meta, body: bytes) -> Meta:
        self.bodies.append(body)
        return await super().put_status(kind, metadata, body)


@simulated
async def test_a_write_is_encoded_once_and_has_no_limits_in_it(server: Server) -> None:
    weighing, metrics = Weighing(), Metrics()
    weighing.put(LEDGERS, ledger(7))
    encoded: list[int] = []
    real = encode_status

    def counting(kind: Kind[Ledger], metadata: Meta, status: LedgerStatus) -> bytes:
        encoded.append(1)
        return real(kind, metadata, status)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writes, "encode_status", counting)
        async with process(weighing, metrics=metrics) as service:
            for name in ("a", "b"):
                assert (await service.decide(LEDGER, creating(name))).allowed
    assert len(encoded) == len(weighing.bodies) == 2
    assert b"limits" not in b"".join(weighing.bodies)
    written = metrics.registry.get_sample_value("ullage_ledger_written_bytes_total")
    assert written == sum(len(body) for body in weighing.bodies)
    assert weighing.ledger().spec == ledger(7).spec


# --- as much as etcd takes ---


def longest(random: Random) -> str:
    return "".join(random.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=253))


def asked(random: Random) -> Charge:
    """As large as a charge can be: of a name, and from an account, that have nothing in common with any other."""
    own = Takings({Cell(f"cups/vm/{longest(random)}", "size"): Quantity.of(random.getrandbits(40))})
    key = key_of("cups.test.ullage.io", namespace="team", name=longest(random))
    return Charge(key=key, uid=str(UUID(int=random.getrandbits(128))), now=takes(1) + own)


def large(random: Random, *, accounts: int, limits: int) -> Ledger:
    """What was counted in many accounts with the longest names, some of which have limits."""
    cells = [Cell(f"plates/vm/{longest(random)}", "size") for _ in range(accounts)]
    counted = Sums({"plates": Takings({cell: Quantity.of(random.getrandbits(40)) for cell in cells})})
    status = LedgerStatus(
        observed={"plates": Count(view=7, time="2026-01-01T00:00:00Z")}, sums=sums.encode(counted), since="2026-01-01T00:00:00Z"
    )
    spec = LedgerSpec(limits={cell.account: {cell.resource: "1Ti"} for cell in cells[:limits]})
    return msgspec.structs.replace(ledger(None), spec=spec, status=status)


async def told(service: Service, charges: list[Charge]) -> tuple[int, int]:
    """How many are allowed, and how many are told to come again."""
    answers = await asyncio.gather(*(service.decide(LEDGER, one) for one in charges), return_exceptions=True)
    allowed = [one for one in answers if isinstance(one, Verdict) and one.allowed]
    again = [one for one in answers if isinstance(one, Crowded)]
    assert len(allowed) + len(again) == len(charges)
    return len(allowed), len(again)


@simulated
async def test_with_many_accounts_fewer_bookings_are_held_and_all_together_fits_into_etcd(server: Server) -> None:
    random, weighing = Random(1), Weighing()
    weighing.put(LEDGERS, large(random, accounts=3500, limits=500))
    async with process(weighing) as service:
        charges = [asked(random) for _ in range(1000)]
        allowed, again = await told(service, charges)
        assert allowed > 100
        assert again > 100
        assert (await told(service, charges[:3])) == (3, 0), "what is held already may be asked for again"
    spec = len(msgspec.json.encode(weighing.ledger().spec))
    assert max(len(body) for body in weighing.bodies) + spec <= writes.LARGEST
    assert writes.LARGEST + 64 * 1024 < ETCD
    held: dict[str, Slot] = pending.decode(weighing.ledger().status.pending, ledger=LEDGER)
    assert len(held) == allowed
