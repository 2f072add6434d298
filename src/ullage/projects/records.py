"""What a MachineRecord says, as values: what each Machine has counted at most, and which went. Pure.

Nothing is accepted but what was written: what cannot be read exactly would have to be guessed, and a Machine that is forgotten
may count less than its server takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from ullage.errors import Terminal
from ullage.kube.kinds import Meta
from ullage.kube.objects import Condition, find_condition
from ullage.ledger.amounts import Amounts, BadAmount, Takings
from ullage.ledger.packing.strings import PackedError, Packing
from ullage.projects.api.records import CLUSTER_USAGE_FRESH, MachineRecord, MachineRecordStatus, VanishedMachine
from ullage.projects.machines.vanished import Vanished
from ullage.projects.names import ACCOUNT, CLUSTER_UID, PROJECT_ID, RESOURCES, is_project_id, quota_name
from ullage.times import read_time, timestamp

# Why what a Cluster says that it uses is not of now.
MACHINES_NOT_READ: Final = "MachinesNotRead"
MACHINES_NOT_COUNTED: Final = "MachinesNotCounted"
MOST_REMEMBERED: Final = 20_000  # machines of one cluster: some 600 KiB

Remembrance = Mapping[str, Amounts]  # by uid: the most that a valid stamp has said, or that it was sized to

_Columns = list[tuple[dict[str, str], list[str]]]  # amounts, and the uids that have them: most machines are like others
_Both = tuple[_Columns, _Columns]  # those with a stamp, and those without
_packing: Final[Packing[_Columns]] = Packing("status.machines", "1", _Columns)
_packing_both: Final[Packing[_Both]] = Packing("status.machines", "2", _Both)  # type: ignore[arg-type]  # tuple[…] is one


@dataclass(frozen=True, slots=True)
class RecordedAmounts:
    """What each Machine counts at least, by uid; `held` are those that count so much whatever their stamps say."""

    amounts: dict[str, Amounts] = field(default_factory=dict)
    held: frozenset[str] = frozenset()


class BadRecord(Terminal):
    """A record that cannot be read. Whoever deletes it has it made anew; what it knew is lost then."""

    def __init__(self, name: str, problem: object) -> None:
        super().__init__(f"machinerecord {name}: {problem}")


def remembered_in(record: MachineRecord) -> dict[str, Amounts]:
    """Raises BadRecord."""
    return recorded_in(record).amounts


def recorded_in(record: MachineRecord) -> RecordedAmounts:
    """Raises BadRecord."""
    said, name = record.status.machines, record.metadata.name
    if not said:
        return RecordedAmounts()
    try:
        if said[0] == _packing_both.version:
            return _packing_both.unpack(said, _read_both, ledger=name)
        return RecordedAmounts(_packing.unpack(said, _amounts, ledger=name))
    except PackedError as error:
        raise BadRecord(record.metadata.name, error.__cause__ or "status.machines is of another version") from error


def vanished_in(record: MachineRecord) -> tuple[Vanished, ...]:
    """Raises BadRecord."""
    return tuple(_vanished(record, one) for one in record.status.vanished)


def status_of(remembered: Remembrance, vanished: Iterable[Vanished], *, held: Set[str] = frozenset()) -> MachineRecordStatus:
    """As it is written, without conditions. Equal values always read the same. Beyond so many machines the last by uid are not
    remembered: they count as their stamps say. Those that count without one (`held`) come first."""
    ordered = sorted(remembered.items(), key=lambda one: (one[0] not in held, one[0])) if held else sorted(remembered.items())
    kept = dict(ordered[:MOST_REMEMBERED])
    return MachineRecordStatus(
        machines=_packed(kept, held) if kept else "",
        count=len(remembered),
        vanished=written_vanished(vanished),
        unstamped=len(held),
        not_remembered=len(remembered) - len(kept),
    )


def ledger_of(record: MachineRecord) -> str:
    """The ledger that the vanished ones count in; empty: none."""
    project = record.metadata.labels.get(PROJECT_ID, "")
    return quota_name(project) if is_project_id(project) else ""


def takes_of(record: MachineRecord) -> Takings:
    """What those that went take. A function of the record alone: whoever writes it leaves out those that do not count any
    more. Raises BadRecord."""
    return Takings.of({ACCOUNT: Amounts.total(one.amounts for one in vanished_in(record))})


def is_of(record: MachineRecord, cluster: Meta) -> bool:
    """Whether it is about this cluster, and not an earlier one of the name."""
    return record.metadata.annotations.get(CLUSTER_UID) == cluster.uid


def stale_usage(record: MachineRecord | None, cluster: Meta) -> Condition | None:
    """Why what a Cluster says that it uses is not of now, and since when; None: it is."""
    if record is None or not is_of(record, cluster):
        return None
    found = find_condition(record.status.conditions, CLUSTER_USAGE_FRESH)
    return found if found is not None and found.status != "True" else None


def _packed(kept: Remembrance, held: Set[str]) -> str:
    """As before there were any without a stamp, as long as there are none: a process of the version before reads it, too."""
    if not held:
        return _packing.pack(_columns(kept))
    stamped, without = ({uid: one for uid, one in kept.items() if (uid in held) is there} for there in (False, True))
    return _packing_both.pack((_columns(stamped), _columns(without)))


def _columns(kept: Remembrance) -> _Columns:
    written: dict[int, tuple[tuple[str, str], ...]] = {}  # by value, as it is held: most are held once for many machines
    by_amounts: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for uid, amounts in kept.items():
        said = written.get(id(amounts))
        if said is None:
            said = written[id(amounts)] = tuple(amounts.written().items())
        by_amounts.setdefault(said, []).append(uid)
    return [(dict(said), uids) for said, uids in sorted(by_amounts.items())]


def _read_both(both: _Both) -> RecordedAmounts:
    stamped, without = map(_amounts, both)
    return RecordedAmounts({**stamped, **without}, frozenset(without))


def _amounts(columns: _Columns) -> dict[str, Amounts]:
    return {uid: amounts for said, uids in columns for amounts in (Amounts.parse(said),) for uid in uids}


def _vanished(record: MachineRecord, one: VanishedMachine) -> Vanished:
    since: datetime | None = read_time(one.since)
    if since is None:
        raise BadRecord(record.metadata.name, f"status.vanished[{one.key}].since is no time")
    try:
        amounts = Amounts.parse({name: getattr(one, name) for name in RESOURCES})
    except BadAmount as error:
        raise BadRecord(record.metadata.name, f"status.vanished[{one.key}].{error}") from error
    return Vanished(key=one.key, amounts=amounts, since=since, created=read_time(one.created), there=read_time(one.there))


def written_vanished(vanished: Iterable[Vanished]) -> tuple[VanishedMachine, ...]:
    return tuple(_written(one) for one in vanished)


def _written(one: Vanished) -> VanishedMachine:
    said = {name: str(one.amounts[name]) for name in RESOURCES}
    created, there = ("" if moment is None else timestamp(moment) for moment in (one.created, one.there))
    return VanishedMachine(key=one.key, since=timestamp(one.since), created=created, there=there, **said)
