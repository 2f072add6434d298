"""What a MachineRecord says, as values: what each Machine has counted at most, and which went. Pure.

Nothing is accepted but what was written: what cannot be read exactly would have to be guessed, and a Machine that is forgotten
may count less than its server takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from ullage.errors import Terminal
from ullage.ledger.amounts import Amounts, BadAmount, Takings
from ullage.ledger.packing.strings import PackedError, Packing
from ullage.projects.api.records import MachineRecord, MachineRecordStatus, VanishedMachine
from ullage.projects.machines.vanished import Vanished
from ullage.projects.names import ACCOUNT, PROJECT_ID, RESOURCES, is_project_id, quota_name
from ullage.times import read_time, timestamp

MOST_REMEMBERED: Final = 20_000  # machines of one cluster: some 600 KiB

Remembrance = Mapping[str, Amounts]  # by uid: the most that a valid stamp has said

_Columns = list[tuple[dict[str, str], list[str]]]  # amounts, and the uids that have them: most machines are like others
_packing: Final[Packing[_Columns]] = Packing("status.machines", "1", _Columns)


class BadRecord(Terminal):
    """A record that cannot be read. Whoever deletes it has it made anew; what it knew is lost then."""

    def __init__(self, name: str, problem: object) -> None:
        super().__init__(f"machinerecord {name}: {problem}")


def remembered_in(record: MachineRecord) -> dict[str, Amounts]:
    """Raises BadRecord."""
    if not record.status.machines:
        return {}
    try:
        return _packing.unpack(record.status.machines, _amounts, ledger=record.metadata.name)
    except PackedError as error:
        raise BadRecord(record.metadata.name, error.__cause__ or "status.machines is of another version") from error


def vanished_in(record: MachineRecord) -> tuple[Vanished, ...]:
    """Raises BadRecord."""
    return tuple(_vanished(record, one) for one in record.status.vanished)


def status_of(remembered: Remembrance, vanished: Iterable[Vanished]) -> MachineRecordStatus:
    """As it is written. Equal values always read the same. Beyond so many machines the last by uid are not remembered: they
    count as their stamps say."""
    kept = dict(sorted(remembered.items())[:MOST_REMEMBERED])
    written: dict[int, tuple[tuple[str, str], ...]] = {}  # by value, as it is held: most are held once for many machines
    by_amounts: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for uid, amounts in kept.items():
        said = written.get(id(amounts))
        if said is None:
            said = written[id(amounts)] = tuple(amounts.written().items())
        by_amounts.setdefault(said, []).append(uid)
    return MachineRecordStatus(
        machines=_packing.pack([(dict(said), uids) for said, uids in sorted(by_amounts.items())]) if kept else "",
        count=len(remembered),
        vanished=tuple(_written(one) for one in vanished),
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
    return Vanished(key=one.key, amounts=amounts, since=since, provider_id=one.provider_id)


def _written(one: Vanished) -> VanishedMachine:
    said = {name: str(one.amounts[name]) for name in RESOURCES}
    return VanishedMachine(key=one.key, since=timestamp(one.since), provider_id=one.provider_id, **said)
