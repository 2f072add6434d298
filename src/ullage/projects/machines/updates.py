"""What may be changed on a Machine, and what becomes of its stamp in an admission request. Pure.

A server keeps the size that it was made with, so an update may not change what a Machine costs. All other updates pass, and so
do deletions: whoever takes off a finalizer needs nobody's leave.

Nobody but us writes stamps. Who writes is known by the signature, since names of users prove nothing in a user cluster: a stamp
that is signed over the uid, and says no less than the one that is there, is our controller's. Anything else is put back as it
was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from ullage.ledger.amounts import Amounts
from ullage.ledger.charging.stamps import STAMP, Marks
from ullage.projects.machines.digests import BadSpec, same
from ullage.projects.machines.facts import MachineFacts
from ullage.projects.machines.signatures import (
    SIGNATURE,
    SigningKeys,
    Valid,
    Verdict,
    sign_bound,
    sign_new,
    stamp_text,
    verify,
    verify_create,
)
from ullage.projects.machines.texts import changed_cost_text, unknown_cost_text

GUARDED: Final = (STAMP, SIGNATURE)

SizeOf = Callable[[Any], Amounts | None]  # what a provider spec costs; None: nobody knows


# --- create ----------------------------------------------------------------------------------------------------------


def marks_on_create(machine: MachineFacts, size: Amounts | None, keys: SigningKeys, *, now: datetime) -> Marks:
    """The annotations that a new Machine is to have, whatever it was sent with. None: it is not to have it. Without a known
    size there is no stamp. A stamp of a moment ago stays, as the hook may be asked again for one request. Raises BadSpec."""
    if size is None:
        return dict.fromkeys(GUARDED)
    given = verify_create(machine, keys, now=now)
    if machine.takes == stamp_text(size) and isinstance(given, Valid) and given.form == "new" and not given.renew:
        return _marks(machine)
    return sign_new(machine, size, keys, now=now).marks()


def create_fault(machine: MachineFacts, size: Amounts | None, keys: SigningKeys, *, now: datetime) -> str | None:
    """What is wrong with the stamp of a new Machine in the validating phase: None where it is as it ought to be. It is to be
    tried again, since the catalogue may have changed between the phases, or another replica may have the next key already."""
    if size is None:
        found = next((key for key, text in _marks(machine).items() if text is not None), None)
        return None if found is None else f"metadata.annotations[{found}]: its size is not known, and another webhook stamps it"
    verdict = verify_create(machine, keys, now=now)
    if not isinstance(verdict, Valid):
        return f"{verdict.message}; another webhook changes the Machine, or its stamp"
    if verdict.amounts != size:
        return f"metadata.annotations[{STAMP}]: it is {machine.takes}, and the size is {stamp_text(size)} by now"
    return None


# --- update ----------------------------------------------------------------------------------------------------------


def marks_on_update(old: MachineFacts, new: MachineFacts, keys: SigningKeys, *, now: datetime, size_of: SizeOf) -> Marks:
    """The annotations that a Machine is to have after an update.

    Where the provider spec changes and what it costs does not, a bound stamp is signed anew for the new spec. Only then:
    whoever makes up requests gets no stamp that says less than one that he has of that uid, nor for a spec that costs more than
    the one that he has it for."""
    after = _as_stored(old, new)
    had, given = verify(old, keys), verify(after, keys)
    if _is_ours(had, given):
        return _marks(after)
    changed = not same(old.provider_spec, new.provider_spec)
    if changed and isinstance(had, Valid) and had.form == "bound" and _costs_the_same(old, new, had, size_of):
        try:
            return sign_bound(after, had.amounts, keys, now=now).marks()
        except BadSpec:
            pass  # it cannot be signed for: the stamp stays, and is wrong from then on
    return _marks(old)


def update_fault(old: MachineFacts, new: MachineFacts, keys: SigningKeys, *, size_of: SizeOf, limited: bool) -> str | None:
    """Why an update is refused: it changes what the Machine costs. None: it is not. What it costs is what it is stamped with,
    and without a valid stamp what its spec costs. Two specs that cost the same by now are alike, whatever the stamp says: the
    flavour may have grown since. Where it cannot be told, it is refused if there is a quota."""
    if same(old.provider_spec, new.provider_spec):
        return None
    had = verify(old, keys)
    if _costs_the_same(old, new, had, size_of):
        return None
    before = had.amounts if isinstance(had, Valid) else size_of(old.provider_spec)
    after = size_of(new.provider_spec)
    if before is None or after is None:
        return unknown_cost_text(new.name) if limited else None
    return None if before == after else changed_cost_text(new.name, before, after)


def marks_fault(old: MachineFacts, new: MachineFacts, keys: SigningKeys) -> str | None:
    """What is wrong with the stamp after an update, in the validating phase: None where it is as it was, or ours."""
    if _marks(new) == _marks(old):
        return None
    if _is_ours(verify(old, keys), verify(_as_stored(old, new), keys)):
        return None
    field = next(key for key, text in _marks(new).items() if text != _marks(old)[key])
    return f"metadata.annotations[{field}]: another webhook changes it; only Ullage may"


def _costs_the_same(old: MachineFacts, new: MachineFacts, had: Verdict, size_of: SizeOf) -> bool:
    """Whether the new spec costs what the Machine is stamped with, or what the old spec costs by now."""
    after = size_of(new.provider_spec)
    if after is None:
        return False
    return (isinstance(had, Valid) and had.amounts == after) or size_of(old.provider_spec) == after


def _is_ours(had: Verdict, given: Verdict) -> bool:
    """Whether a stamp was written by our controller, which never lowers what a Machine counts. One that says less was made
    before the one that is there, and copied back."""
    if not isinstance(given, Valid) or given.form != "bound":
        return False
    return not isinstance(had, Valid) or had.amounts <= given.amounts


def _as_stored(old: MachineFacts, new: MachineFacts) -> MachineFacts:
    """The new object under the identity of the stored one."""
    return replace(new, cluster=old.cluster, namespace=old.namespace, uid=old.uid, created=old.created)


def _marks(machine: MachineFacts) -> dict[str, str | None]:
    return {STAMP: machine.takes, SIGNATURE: machine.signature}
