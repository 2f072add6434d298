"""Has an object pay for what it is about to take, once somebody has measured that: the stamp goes up or down, or is refused.

Until then the stamp is an estimate, made when the object was admitted. What is taken may have grown since.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol, TypeVar

from ullage.errors import NotNow
from ullage.kube.client.interface import Finder, Patcher
from ullage.kube.errors import Conflict, Forbidden, Invalid, NotFound
from ullage.kube.kinds import Kind, Meta, Object
from ullage.kube.objects import is_deleting
from ullage.ledger.amounts import BadAmount, spell
from ullage.ledger.charging.methods import CAPACITY, RESTORE_SIZE
from ullage.ledger.charging.raising import NoRoom, restamp
from ullage.ledger.charging.stamps import ESTIMATED_BY, STAMP, BadStamp, Stamp, stamp_of
from ullage.ledger.charging.waiting import ARRIVED, waits
from ullage.quantity import Quantity

T = TypeVar("T", bound=Object)

RESOURCE: Final = "storage"  # bytes
TRIES: Final = 5  # where others write to the object at the same time
NO_ROOM: Final = "SnapshotSpaceExceeded"  # the reason of whatever is not taken since it does not fit


class Writer(Finder, Patcher, Protocol):
    """Reads and changes one object."""


def payer(meta: Meta) -> Stamp | None:
    """What an object pays, if it is one that does. None: somebody else pays for it, or nobody is charged. Raises BadStamp."""
    if STAMP not in meta.annotations:
        return None
    stamp = stamp_of(meta)
    return stamp if any(cell.resource == RESOURCE for cell in stamp.cells) else None


def measured(stamp: Stamp, amount: int, *, lower: bool) -> Stamp:
    """The stamp for so many bytes. Unless it may be lowered, it stays where it is more: the object may have taken that."""
    wanted = stamp.resized(RESOURCE, amount)
    if lower:
        return wanted
    return Stamp({cell: max(quantity, wanted.cells[cell]) for cell, quantity in stamp.cells.items()})


def refusal(amount: int, numbers: str, *, by: str = "") -> NoRoom:
    """`numbers` begin with a verb, as those of the webhook do: `does not fit: …`. `by` is how the amount was found."""
    size = spell(RESOURCE, Quantity.of(amount))
    if by == CAPACITY:
        return NoRoom(f"a snapshot of the volume may take its capacity of {size}, since nothing tells less, which {numbers}")
    if by == RESTORE_SIZE:
        return NoRoom(f"the snapshot may take {size}, as a volume made from it does, since nothing tells less, which {numbers}")
    return NoRoom(f"a snapshot of the volume takes {size} by now, which {numbers}")


async def book(
    client: Writer,
    kind: Kind[T],
    seen: T,
    amount: int,
    *,
    lower: bool,
    also: Mapping[str, str] | None = None,
    told: Mapping[str, str] | None = None,
) -> T | None:
    """The object, stamped to take so many bytes; None: it is gone, or going. Where it has changed meanwhile it is looked at
    anew. `also` are annotations that change with the stamp, `told` those that are written although it stays what it was.

    Raises NoRoom, with all numbers, where that does not fit, and NotNow where it is refused for another reason: then its
    stamp is what it was.
    """
    found: T | None = seen
    for left in reversed(range(TRIES)):
        if found is None or found.metadata.uid != seen.metadata.uid or is_deleting(found.metadata):
            return None
        stamp = payer(found.metadata)
        if stamp is None:
            return found
        wanted = measured(stamp, amount, lower=lower)
        arrives = waits(found.metadata)  # what was measured does not wait for its source any more
        if wanted.takes == stamp.takes and not told and not arrives:
            return found
        try:
            marks = {**(ARRIVED if arrives else {}), **(also or {}), **(told or {})}
            return await restamp(client, kind, found.metadata, wanted, also=marks)
        except NoRoom as error:
            raise refusal(amount, str(error), by=(also or {}).get(ESTIMATED_BY, "")) from error
        except (Forbidden, Invalid) as error:  # shown, and tried again: a right may be missing
            raise NotNow(f"what it takes cannot be booked: {error}") from error
        except NotFound:
            return None
        except Conflict:
            if not left:
                raise
        found = await client.find(kind, seen.metadata.name, seen.metadata.namespace)
    return None


async def give_back(client: Writer, kind: Kind[T], seen: T) -> T:
    """The object, as it is when nothing was made of what it was to pay for: it takes nothing, and keeps its accounts, so that
    it can be booked again. One whose stamp cannot be read stays as it is: whoever counts it puts that right."""
    try:
        return await book(client, kind, seen, 0, lower=True) or seen
    except (BadStamp, BadAmount):
        return seen
