"""Setting limits: for slices, whose ledgers have them, and for whoever carries a grant from one cluster to another."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final, Protocol

from ullage.errors import Retryable, Terminal
from ullage.kube.errors import AlreadyExists, Invalid, NotFound
from ullage.kube.kinds import Kind, Meta
from ullage.ledger.amounts import Limits
from ullage.ledger.api import LEDGERS, NAMESPACE, Ledger
from ullage.ledger.limits import has_limits, limits_patch, wanted_within

TRIES: Final = 5


class Outdated(Terminal):
    """The ledger has the limits of a later change. Whoever brings this one was held up, and is not needed any more."""


class Interleaved(Retryable):
    """Another change came between a look and a write. Nothing is allowed that neither of them allows; look again."""


class LimitsApi(Protocol):
    """What is needed of a `kube.Client`."""

    async def find(self, kind: Kind[Ledger], name: str, namespace: str = "") -> Ledger | None: ...

    async def create(self, kind: Kind[Ledger], obj: Ledger) -> Ledger: ...

    async def patch(self, kind: Kind[Ledger], name: str, namespace: str = "", *, merge: Mapping[str, Any]) -> Ledger: ...


async def set_limits(
    api: LimitsApi,
    name: str,
    wanted: Limits,
    *,
    number: int = 0,
    about: str = "",
    grants: Limits | None = None,
    namespace: str = NAMESPACE,
) -> Ledger:
    """Has a ledger hold these limits, and makes it if there is none. Whoever asks twice changes nothing the second time.

    Without a `number` it is the next one, so that of two who change limits at once the second looks again; `about` keeps
    everybody to accounts of their own (`limits.limits_patch`). With a number, that is the change that this is, whatever came
    before it: raises `Outdated` where the ledger has a later one. `grants` says which of the limits may be raised on demand,
    and up to what (`demand.py`).

    The limits hold from the write on; `limits.unreached` tells when nothing is past them any more.
    """
    wanted = wanted_within(wanted, about=about)
    change = partial(_change, api, wanted=wanted, about=about, grants=grants)
    for _ in range(TRIES):
        seen = await api.find(LEDGERS, name, namespace)
        if seen is None:
            seen = await _create(api, name, namespace)
        if seen is None:
            continue
        if has_limits(seen.spec, wanted, about=about, grants=grants) and number in (0, seen.spec.change):
            return seen
        if number and seen.spec.change >= number:
            raise Outdated(f"ledger {name}: change {number} comes too late, it has change {seen.spec.change} already")
        written = await change(seen, number=number or seen.spec.change + 1)
        if written is not None:
            return written
    raise Interleaved(f"ledger {name}: others change its limits all the time, {TRIES} tries were in vain")


async def _create(api: LimitsApi, name: str, namespace: str) -> Ledger | None:
    """Without limits: those come with the patch, as on any other, which also switches managedFields off."""
    try:
        return await api.create(LEDGERS, Ledger(metadata=Meta(name=name, namespace=namespace)))
    except AlreadyExists:
        return None


async def _change(
    api: LimitsApi, seen: Ledger, *, wanted: Limits, number: int, about: str, grants: Limits | None
) -> Ledger | None:
    """The ledger with the change, or None where another change or a deletion came first."""
    meta = seen.metadata
    merge = limits_patch(seen.spec, wanted, number=number, about=about, grants=grants)
    try:
        written = await api.patch(LEDGERS, meta.name, meta.namespace, merge=merge)
    except NotFound:
        return None
    except Invalid:
        now = await api.find(LEDGERS, meta.name, meta.namespace)
        if now is not None and now.spec.change == seen.spec.change:
            raise  # not for its number
        return None
    if not has_limits(written.spec, wanted, about=about, grants=grants):
        # A merge patch removes what was seen to be there. What came since stays: a limit too many, never one too few.
        raise Interleaved(f"ledger {meta.name}: another change came before change {number}, and some of its limits stayed")
    return written
