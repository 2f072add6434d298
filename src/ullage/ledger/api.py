"""The Ledger as the API has it. `codec.py` turns one into a `Book` and back.

A ledger is guarded by its schema, its rules and RBAC; it has no webhook, since every webhook needs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec

from ullage.kube import identities
from ullage.kube.kinds import AGE, ATOMIC, Column, Kind, Object, Rule, Value
from ullage.kube.objects import Conditions

NAMESPACE: Final = identities.NAMESPACE  # where all ledgers live


def _mark(**schema: object) -> msgspec.Meta:
    return msgspec.Meta(extra_json_schema=schema)


# Written as a whole: a field manager's record of every cell would be larger than the map itself.
_WHOLE: Final = _mark(**{"x-kubernetes-map-type": "atomic"})
_TIME: Final = _mark(format="date-time")
# A quantity that is not negative.
_AMOUNT: Final = _mark(
    pattern=r"^\+?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]{1,2}))?$", maxLength=64
)
# The API server refuses rules that might cost too much, so what a rule walks over has an end. Nothing else of a status has
# one: a count that could not be written would refuse everything from then on.
_MANY: Final = _mark(maxProperties=4096)

_Limits = Mapping[str, Annotated[Mapping[str, Annotated[str, _AMOUNT]], _mark(maxProperties=64)]]


_NONE: Final[Mapping[str, Mapping[str, str]]] = {}


class LedgerSpec(Value):
    """What a tenant may use."""

    limits: Annotated[_Limits, _MANY] = _NONE
    """The most that may be used, by account and resource: `snapshots/namespace: {storage: 100Gi}`. Amounts are quantities:
    bytes for storage and memory, cores for cpu, pieces for everything else. A resource that is absent has no limit, 0 allows
    none. A limit below what is used now is kept, takes nothing away, and refuses growth. One on `snapshot-count/claim/*` is on
    each account `snapshot-count/claim/<name>` that has none of its own."""
    grants: Annotated[_Limits, _MANY] = _NONE
    """Which of the limits are grants, by account and resource, with the whole that each is part of: `machines: {cpu: "100"}`.
    Whoever gives them away may raise them up to that. So what does not fit into one is asked for (`status.demand`) and waited
    for as long as the request lasts, where any other limit refuses at once. They change with the limits."""
    change: Annotated[int, _mark(minimum=0)] = 0
    """The number of the change that set the limits. It rises with each, so that nobody who was held up brings old ones back."""


class Count(Value):
    """Up to where the objects of one kind are counted."""

    view: int
    """The position of the kind's watch (a resourceVersion) up to which changes are in the sums. It goes back only where a new
    epoch begins, and is 0 until everything was listed anew."""
    time: Annotated[str, _TIME]
    """When it was counted."""


class Fullest(Value):
    """The limit that is closest to being reached, in units for people: rounded, not for programs."""

    account: str = ""
    """The account that the limit is on."""
    resource: str = ""
    """The resource that the limit is on."""
    used: str = ""
    """What is counted, rounded up: `51.5Gi`, `3.2 cores`, `7`."""
    limit: str = ""
    """The limit, rounded down."""
    percent: str = ""
    """What is used and reserved, in percent of the limit."""
    reserved: str = ""
    """What was admitted and is not counted yet, rounded up."""


class Demand(Value):
    """How much of a grant would do for everything that was asked for."""

    limit: Annotated[str, _AMOUNT]
    """The limit with which it would fit, the whole at most."""
    since: Annotated[str, _TIME]
    """When it was first asked for."""
    asked: Annotated[str, _TIME]
    """When it was last asked for, give or take some seconds. What nobody asks for any more goes after a minute."""


class LedgerStatus(Value):
    """What a tenant uses, and what was promised to it."""

    change: int = 0
    """The number of the change of the limits that all of this was said about."""
    observed_generation: int = 0
    """The metadata.generation that all of this was said about."""
    observed: Annotated[Mapping[str, Count], _WHOLE, _MANY] = {}
    """Up to where is counted, by kind: `snapshots.longhorn.io`, or `machines.cluster.k8s.io/<cluster>` of another cluster."""
    sums: str = ""
    """What was counted at these positions, by kind, account and resource, and the accounts whose limits have been noticed by
    whoever counts, in a compact form; `ullage ledger describe` shows them. It is a digit for the version of the encoding, then
    base64 (URL alphabet, no padding) of a zlib stream of MessagePack."""
    pending: str = ""
    """Requests that were admitted and are not counted yet, in the same form; `ullage ledger describe` shows them."""
    last_booking: Annotated[str, _TIME] = ""
    """When something was last booked, to the millisecond. No two bookings have the same time."""
    since: Annotated[str, _TIME] = ""
    """When the ledger was first written, or an account got its first limit, by the clock of whoever noticed. Requests that
    were admitted before are in no booking; once they have ended, everything is counted anew."""
    exact_from: Annotated[Mapping[str, int], _WHOLE] = {}
    """By kind, the position of its watch from which a count is exact: read after all requests had ended that were admitted
    before `since`. -1: the kind is to be counted, in another cluster, and that position is not known yet."""
    epoch: Annotated[int, _mark(minimum=0)] = 0
    """How often counts have begun anew, since an API server was restored from a backup, or by `ullage ledger rebuild`. It
    never goes down."""
    epochs: Annotated[Mapping[str, int], _WHOLE, _MANY] = {}
    """By kind, the epoch that its count is of; none is the first. Only those count on who have listed everything since they saw
    that epoch."""
    restored: Annotated[tuple[str, ...], ATOMIC] = ()
    """The kinds whose API server was found to be restored from a backup, until their counts are exact again."""
    demand: Annotated[Mapping[str, Mapping[str, Demand]], _WHOLE] = {}
    """What is wanted of the grants, by account and resource, while their limits are lower than that. It promises nothing."""
    limits_in_flight: str = ""
    """First and lower limits whose requests were admitted and are not seen in their objects yet, in the same form as `pending`:
    they hold already, although `spec.limits` does not have them. And the versions up to which such objects have to be seen by
    a process that decides."""
    waiting: str = ""
    """Requests that were refused and for which room may be made, with what each would take, in the same form as `pending`. It
    promises nothing; who does not ask any more goes after some seconds."""
    fullest: Fullest = Fullest()
    """The limit that is closest to being reached: what `kubectl get` shows."""
    summary: Annotated[tuple[str, ...], ATOMIC] = ()
    """The ten accounts that are closest to their limits, or use the most where there are fewer limits, a line for each:
    rounded, not for programs. A last line says how many are left out; `ullage ledger describe` shows all."""
    conditions: Conditions = ()
    """`Ready`: what is counted is exact. `WithinLimits`: nothing that is used or reserved is past its limit."""


class Ledger(Object):
    """What a tenant may use, what it uses and what is reserved for it: `ns-<namespace>` or `project-<id>`. Whoever asks for
    more is admitted only if it fits here. Written by Ullage alone."""

    spec: LedgerSpec = LedgerSpec()
    """What the tenant may use."""
    status: LedgerStatus = LedgerStatus()
    """What the tenant uses, and what was promised to it."""


_CONDITION: Final = '.status.conditions[?(@.type=="%s")].status'
_SAME_NUMBER: Final = "oldSelf.hasValue() && has(self.change) && self.change == oldSelf.value().?change.orValue(-1)"
_PART: Final = "[a-z0-9]([-a-z0-9.]*[a-z0-9])?"


def _number(field: str) -> str:
    return f"(has({field}) ? {field} : 0)"


_GOES_ON: Final = (
    "(has(self.observed) && kind in self.observed ? self.observed[kind].view >= oldSelf.observed[kind].view"
    " : kind.contains('/'))"
)
_BEGINS_ANEW: Final = (
    f"({_number('self.epoch')} > {_number('oldSelf.epoch')} && has(self.epochs) && kind in self.epochs"
    " && self.epochs[kind] == self.epoch)"
)

LEDGERS: Final = Kind(
    "ullage.io",
    "v1alpha1",
    "Ledger",
    "ledgers",
    Ledger,
    short_names=("lg",),
    categories=("ullage",),
    columns=(
        Column("Used", ".status.fullest.used", description="What is counted of the resource that is closest to its limit."),
        Column("Limit", ".status.fullest.limit", description="The limit of that resource."),
        Column("%", ".status.fullest.percent", description="Used and reserved, in percent of the limit."),
        Column("Reserved", ".status.fullest.reserved", description="What was admitted and is not counted yet."),
        Column("Ready", _CONDITION % "Ready", description="Whether the count is exact."),
        Column("Account", ".status.fullest.account", description="The account with that limit.", priority=1),
        Column("Resource", ".status.fullest.resource", description="The resource with that limit.", priority=1),
        Column("Within", _CONDITION % "WithinLimits", description="Whether no limit is passed.", priority=1),
        AGE,
    ),
    rules=(
        # With the number of before the limits are those of before: a booking does not pay for a look at their names.
        Rule(
            f"{_SAME_NUMBER} || !has(self.limits) || self.limits.all(account, account.matches('^{_PART}(/{_PART})*(/[*])?$'))",
            "an account is written like snapshots/vm/db: names in lower case, separated by slashes; * may be the last",
            path="spec",
            field_path=".limits",
            optional_old=True,
        ),
        Rule(
            f"{_number('self.change')} > {_number('oldSelf.change')} || self == oldSelf",
            "limits change only together with a change number that rises",
            path="spec",
        ),
        Rule("has(self.spec) || !has(oldSelf.spec)", "the limits and their change number stay"),
        Rule(f"{_number('self.epoch')} >= {_number('oldSelf.epoch')}", "the epoch never goes down", path="status"),
        # What is counted in other clusters may go with them.
        Rule(
            f"!has(oldSelf.observed) || oldSelf.observed.all(kind, {_GOES_ON} || {_BEGINS_ANEW})",
            "a count cannot go back to an older view but in a new epoch of its own",
            path="status",
        ),
        Rule("has(self.status) || !has(oldSelf.status)", "what was counted stays"),
    ),
)
