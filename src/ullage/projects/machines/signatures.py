"""Stamps of Machines are signed. Who runs a user cluster is its administrator: there an annotation proves nothing by itself.

A Machine says what it takes in `ullage.io/takes`, as all that is charged does. `ullage.io/takes-signature` beside it holds
HMAC-SHA256 with a key that never leaves the seed cluster: `v1:FORM:ISSUED:CODE`, ISSUED in seconds since 1970. What counts is
what the key was used on; names of users prove nothing in that cluster, so our own writes are known by their signatures, too.

The stamp is needed before the uid is known: only the mutating hook can write it, and the uid is made after that. So there are
two forms, and both are over the cluster, the digest of the provider spec, the text of the amounts and the time of issue.

- `new`, by the mutating hook, is over namespace and name as well, or over the beginning of the name where the rest is made up
  later. It is good for a Machine that was created within minutes of ISSUED, by the API server's own date of creation. So
  whether it is good follows from the object alone, today as in a year, and nobody has to be quick with the second form.
- `bound`, by the controller as soon as it sees the object, is over the uid instead. The mutating hook makes one only out of
  another `bound` one of the same uid and the same amounts, when an update changes the provider spec and not what it costs.

What the administrator of a user cluster can do. He knows the path of the webhook, so he can have any Machine that he makes up
stamped in the form `new`: with what that provider spec costs at that moment. He can remove the registration and create
Machines with such stamps, or copy one to Machines of the same name or beginning of a name, the same spec, made in the same
minutes. All of these count in full. None was booked: a `new` stamp says what a Machine takes, and not that it was admitted.
What is over the limit for that reason shows as over the limit. By requests that he makes up he gets no `bound` stamp but such
as say what the controller has signed for that uid before.

What he cannot do. A `new` stamp on another cluster's Machine, under another name, with another provider spec, or on a Machine
made later (a flavour may have grown since) is wrong. A `bound` stamp is wrong on every Machine but one, and there with every
other provider spec. No amount can be changed. Where a Machine was sized anew, an earlier `bound` stamp of it is still signed:
to put it back lowers nothing, nor does it to take a stamp away or to exchange the spec for a smaller one, since what a uid
counts never goes down (`updates`, and `counting` by what the seed remembers).

Pure: keys and the time are arguments.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, Literal

import msgspec

from ullage.errors import Terminal
from ullage.kube.kinds import Meta
from ullage.ledger.amounts import Amounts, BadAmount, Cell, Takings
from ullage.ledger.charging.stamps import STAMP, BadStamp, Stamp, read_stamp, write_stamp
from ullage.projects.machines.digests import BadSpec, digest
from ullage.projects.machines.facts import MachineFacts
from ullage.projects.names import ACCOUNT, RESOURCES

SIGNATURE: Final = "ullage.io/takes-signature"
KEY_BYTES: Final = 32
VERSION: Final = "v1"
# Nothing else is signed with these words before it, should the key ever be used for something else.
PURPOSE: Final = f"ullage.io/machine-stamp/{VERSION}"

FRESH: Final = timedelta(minutes=3)  # from the stamp to the object; the API server gives up on a request after one
SKEW: Final = timedelta(seconds=30)  # by which the object may seem older than its stamp: clocks differ, and dates are cut
LONGEST_TAKES: Final = 1024  # characters; ours have some 70
GENERATED: Final = 58  # of the beginning of a name the API server keeps so many characters

Form = Literal["new", "bound"]
Reason = Literal["Missing", "TooLong", "Malformed", "NotSigned", "NotFresh", "Unreadable"]

_SYNTAX: Final = re.compile(r"v1:(new|bound):([1-9][0-9]{0,10}):([0-9a-f]{64})")


class BadSigningKey(Terminal):
    """A key that is too short, or twice the same one."""


@dataclass(frozen=True, slots=True)
class SigningKeys:
    """The key that signs, and one other that is accepted. A key is changed in three steps, each when all replicas have made the
    one before: the new one is accepted, the new one signs and the old one is accepted, the old one goes. Between the last two
    the controller renews what the old one has signed."""

    signs: bytes = field(repr=False)
    accepted: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for key in (self.signs, self.accepted):
            if key is not None and len(key) < KEY_BYTES:
                raise BadSigningKey(f"a key that signs stamps has {KEY_BYTES} bytes at least, not {len(key)}")
        if self.accepted is not None and hmac.compare_digest(self.signs, self.accepted):
            raise BadSigningKey("the key that signs stamps and the other one that is accepted are the same")


@dataclass(frozen=True, slots=True)
class Signed:
    """The two annotations of a stamp."""

    takes: str
    signature: str

    def marks(self) -> dict[str, str]:
        return {STAMP: self.takes, SIGNATURE: self.signature}


@dataclass(frozen=True, slots=True, kw_only=True)
class Valid:
    """A stamp that is good for the object that it is on. `renew`: not by the key that signs now."""

    amounts: Amounts
    form: Form
    issued: int
    renew: bool = False

    @property
    def takes(self) -> Takings:
        return Takings.of({ACCOUNT: self.amounts})

    @property
    def settled(self) -> bool:
        """Nothing is left to be done about it."""
        return self.form == "bound" and not self.renew


@dataclass(frozen=True, slots=True)
class Wrong:
    """No stamp, or one that is not good for the object that it is on."""

    reason: Reason
    message: str


Verdict = Valid | Wrong


# --- signing ---------------------------------------------------------------------------------------------------------


def stamp_text(amounts: Amounts) -> str:
    """`{"machines":{"cpu":"2","memory":"4Gi","storage":"20Gi"}}`. All three are said, also where one is nothing."""
    return write_stamp(Stamp({Cell(ACCOUNT, name): amounts[name] for name in RESOURCES}))


def sign_new(machine: MachineFacts, amounts: Amounts, keys: SigningKeys, *, now: datetime) -> Signed:
    """The stamp of a Machine that is about to be created. Raises BadSpec."""
    naming = ("name", machine.name) if machine.name else ("generateName", machine.generate_name)
    takes, issued = stamp_text(amounts), int(now.timestamp())
    said = (machine.cluster, machine.namespace, *naming, digest(machine.provider_spec))
    return _signed("new", said, takes, issued, key=keys.signs)


def sign_bound(machine: MachineFacts, amounts: Amounts, keys: SigningKeys, *, now: datetime) -> Signed:
    """The stamp of a Machine that is there. Raises BadSpec."""
    if not machine.uid:
        raise ValueError(f"machine {machine.namespace}/{machine.name} has no uid: only what is in the API can be bound")
    said = (machine.cluster, machine.uid, digest(machine.provider_spec))
    return _signed("bound", said, stamp_text(amounts), int(now.timestamp()), key=keys.signs)


def _signed(form: Form, said: tuple[str, ...], takes: str, issued: int, *, key: bytes) -> Signed:
    return Signed(takes, f"{VERSION}:{form}:{issued}:{_code(key, form, said, takes, issued)}")


def _code(key: bytes, form: str, said: tuple[str, ...], takes: str, issued: int) -> str:
    """Over a JSON list: no two lists of texts read the same, whatever is in them."""
    message = msgspec.json.encode((PURPOSE, form, str(issued), takes, *said))
    return hmac.new(key, message, hashlib.sha256).hexdigest()


# --- verifying -------------------------------------------------------------------------------------------------------


def verify(machine: MachineFacts, keys: SigningKeys, *, fresh: timedelta = FRESH) -> Verdict:
    """What the stamp of an object is worth. Has an answer for every object, and looks at no more of it than a stamp can
    have."""
    if machine.takes is None or machine.signature is None:
        lacking = STAMP if machine.takes is None else SIGNATURE
        return Wrong("Missing", f"metadata.annotations[{lacking}]: it is missing")
    if len(machine.takes) > LONGEST_TAKES:
        return Wrong(
            "TooLong", f"metadata.annotations[{STAMP}]: it has {len(machine.takes)} characters, more than {LONGEST_TAKES}"
        )
    match = _SYNTAX.fullmatch(machine.signature)
    if match is None:
        return Wrong("Malformed", f"metadata.annotations[{SIGNATURE}]: it is no signature of ours: v1:FORM:ISSUED:CODE")
    form: Form = "new" if match[1] == "new" else "bound"
    issued = int(match[2])
    try:
        signer = _signer(machine, form, issued, match[3], keys=keys)
    except (BadSpec, ValueError) as error:
        return Wrong("Unreadable", f"what its stamp would be over cannot be read: {error}")
    if signer is None:
        return Wrong(
            "NotSigned",
            f"metadata.annotations[{SIGNATURE}]: it is not of this Machine, this cluster, this provider spec and these amounts",
        )
    if form == "new" and not _is_fresh(machine, issued, fresh):
        return Wrong(
            "NotFresh", f"metadata.annotations[{SIGNATURE}]: it was made for a Machine that was to be created at another time"
        )
    return _valid(machine.takes, form, issued, renew=signer is not keys.signs)


def verify_create(machine: MachineFacts, keys: SigningKeys, *, now: datetime) -> Verdict:
    """The same in the validating phase of a create. Whoever sends the review may say any date of creation: ours counts."""
    return verify(replace(machine, created=now), keys)


def _signer(machine: MachineFacts, form: Form, issued: int, code: str, *, keys: SigningKeys) -> bytes | None:
    """The key that made the code. All that could have are tried, so it takes as long whether the first fits or none."""
    assert machine.takes is not None
    found = None
    for said in _could_be_over(machine, form):
        for key in (keys.signs, keys.accepted):
            if key is not None and hmac.compare_digest(_code(key, form, said, machine.takes, issued), code):
                found = key
    return found


def _could_be_over(machine: MachineFacts, form: Form) -> list[tuple[str, ...]]:
    spec = digest(machine.provider_spec)
    if form == "bound":
        return [(machine.cluster, machine.uid, spec)] if machine.uid else []
    here, beginning = (machine.cluster, machine.namespace), machine.generate_name
    named: list[tuple[str, ...]] = [(*here, "name", machine.name, spec)] if machine.name else []
    if beginning and machine.name.startswith(beginning[:GENERATED]):
        named.append((*here, "generateName", beginning, spec))
    return named


def _is_fresh(machine: MachineFacts, issued: int, fresh: timedelta) -> bool:
    if machine.created is None:
        return False
    age = timedelta(seconds=machine.created.timestamp() - issued)
    return -SKEW <= age <= fresh


def _valid(takes: str, form: Form, issued: int, *, renew: bool) -> Verdict:
    try:
        amounts = read_stamp(Meta(annotations={STAMP: takes})).account(ACCOUNT)
    except (BadStamp, BadAmount) as error:  # we have signed what we cannot read
        return Wrong("Unreadable", str(error))
    return Valid(amounts=amounts, form=form, issued=issued, renew=renew)
