"""However snapshots are taken, removed, merged and handed on, and wherever it is cut off: what is booked is never less than
what is there, and equals it when nothing is left to do.

Random walks beside a model of an engine whose snapshots are sets of blocks. The engine goes on between any two writes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from ullage.engines import chain
from ullage.engines.api import ENGINE_SNAPSHOTS, Engine, EngineSpec, EngineStatus, Snapshot, SnapshotSpec, SnapshotStatus
from ullage.engines.chain import HEAD
from ullage.engines.merging import merges_of
from ullage.engines.model import info_of
from ullage.kube.kinds import Kind, Meta
from ullage.ledger.charging.stamps import FREE, Stamp
from ullage.snapshots.api.ga.translation import GA
from ullage.space.accounts import NAMESPACE_CELL, stamp_for, vm_cell
from ullage.space.controllers.follow.model import (
    Bearer,
    Change,
    Cut,
    EngineSide,
    Pair,
    Plan,
    RecordSide,
    SnapshotSide,
    Trace,
    measured,
    ordered,
    view_of,
)
from ullage.space.controllers.follow.payers import wanted

NS = "team-a"
WHEN = "2026-01-01T00:00:00Z"
BLOCKS = 6


@dataclass
class Entry:
    """A snapshot in the engine, or the head."""

    parent: str
    blocks: frozenset[int] = frozenset()
    removed: bool = False
    system: bool = False


@dataclass
class Thing:
    """An object with a stamp."""

    stamp: Stamp | None
    going: bool = False
    version: int = 1


@dataclass
class Standing:
    """Who stands for a snapshot of the engine. Without `snapshot` it was taken in the engine itself."""

    snapshot: Thing | None = None
    record: Thing | None = None
    engine: Thing | None = None
    retain: bool = False
    charged: bool = False  # the record says which namespace pays

    def things(self) -> list[tuple[str, Thing]]:
        named = (("vs", self.snapshot), ("record", self.record), ("engine", self.engine))
        return [(name, one) for name, one in named if one is not None]


@dataclass
class Model:
    entries: dict[str, Entry] = field(default_factory=lambda: {HEAD: Entry("")})
    standing: dict[str, Standing] = field(default_factory=dict)
    machines: tuple[str, ...] = ("db",)
    made: int = 0

    def children(self, name: str) -> list[str]:
        return [other for other, one in self.entries.items() if one.parent == name]

    def truth(self) -> int:
        return sum(len(one.blocks) for name, one in self.entries.items() if name != HEAD and not one.removed)

    def counted(self, machine: str = "") -> int:
        cell = vm_cell(machine) if machine else NAMESPACE_CELL
        things = (one for standing in self.standing.values() for name, one in standing.things() if _counts(standing, name))
        return sum(one.stamp.takes[cell].value() for one in things if one.stamp is not None)

    def listed(self) -> dict[str, chain.Entry]:
        return {
            name: chain.Entry(
                name=name,
                parent=one.parent,
                removed=one.removed,
                user_created=not one.system,
                created=f"{name:>9}",
                size=len(one.blocks),
            )
            for name, one in self.entries.items()
        }


def _counts(standing: Standing, name: str) -> bool:
    return name != "record" or standing.charged


def _bearer(kind: Kind[Any], name: str, thing: Thing, *, namespace: str) -> Bearer:
    stamp = WHEN if thing.going else None
    meta = Meta(name=name, uid=name, resource_version=str(thing.version), deletion_timestamp=stamp)
    return Bearer(kind=kind, meta=meta, stamp=thing.stamp, namespace=namespace)


def _trace(model: Model, name: str) -> Trace:
    one = model.standing[name]
    cut = Cut(pairs=_pairs(one, name), engine=_engine_side(one, name), vms={NS: model.machines})
    if one.engine is None:
        return Trace(name=name, cut=cut, was_cut=True)
    meta = Meta(name=name, deletion_timestamp=WHEN if one.engine.going else None)
    snapshot = Snapshot(metadata=meta, spec=SnapshotSpec(create_snapshot=True), status=SnapshotStatus(creation_time=WHEN))
    return Trace(name=name, cut=cut, snapshot=snapshot, was_cut=True)


def _pairs(one: Standing, name: str) -> tuple[Pair, ...]:
    snapshot, record = None, None
    if one.snapshot is not None:
        bearer = _bearer(GA.snapshots, f"vs {name}", one.snapshot, namespace=NS)
        snapshot = SnapshotSide(bearer=bearer, cut=True, claim="c")
    if one.record is not None:
        bearer = _bearer(GA.records, f"record {name}", one.record, namespace=NS if one.charged else "")
        record = RecordSide(bearer=bearer, policy="Retain" if one.retain else "Delete", namespace=NS)
    return (Pair(snapshot=snapshot, record=record),) if snapshot or record else ()


def _engine_side(one: Standing, name: str) -> EngineSide | None:
    if one.engine is None:
        return None
    bearer = _bearer(ENGINE_SNAPSHOTS, f"engine {name}", one.engine, namespace=NS)
    return EngineSide(bearer=bearer, cut=True, namespace=NS)


class Walk:
    """`raises` and `lowers` are what the controller has still to write, of what it saw at some moment."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.model = Model()
        self.raises: list[Change] = []
        self.lowers: list[Change] = []
        self.versions: dict[str, int] = {}  # as the plan saw or wrote them
        for _ in range(4):
            self.write()
            self.take()

    def steps(self) -> dict[Callable[[], None], int]:
        """What may happen, and how often."""
        return {
            self.write: 3,
            self.take: 2,
            self.take_by_the_system: 1,
            self.show: 2,
            self.revert: 1,
            self.merge_a_piece: 6,
            self.drop_a_leaf: 1,
            self.delete: 4,
            self.work: 8,
            self.plug: 1,
            self.look: 4,
            self.write_one: 12,
        }

    def run(self, steps: int) -> None:
        weights = self.steps()
        for step in self.random.choices(list(weights), list(weights.values()), k=steps):
            step()
            assert self.model.counted() >= self.model.truth(), step.__name__
        self.come_to_rest()

    # --- the engine ---

    def write(self) -> None:
        head = self.model.entries[HEAD]
        head.blocks |= set(self.random.choices(range(BLOCKS), k=self.random.randint(1, 3)))

    def take(self) -> None:
        """What it takes is booked before it is cut, by whoever takes it."""
        booked = stamp_for(merges_of(self.model.listed()).sizes[HEAD], self.model.machines)
        if self.random.random() < 0.6:
            standing = Standing(snapshot=Thing(booked), record=Thing(None), engine=Thing(FREE))
            standing.retain = self.random.random() < 0.5
        else:
            standing = Standing(engine=Thing(booked))
        self.model.standing[self.cut()] = standing

    def cut(self) -> str:
        model = self.model
        model.made += 1
        name, head = f"s{model.made}", model.entries[HEAD]
        model.entries[name] = Entry(head.parent, head.blocks)
        model.entries[HEAD] = Entry(name)
        return name

    def take_by_the_system(self) -> None:
        """It has no object before somebody has looked: until then nothing can be booked, so it is of nothing here."""
        self.model.entries[HEAD].blocks = frozenset()
        if not merges_of(self.model.listed()).sizes[HEAD]:
            self.model.entries[self.cut()].system = True

    def show(self) -> None:
        """The engines' own controller makes an object for what has none, and the webhook stamps it with what it takes."""
        view = merges_of(self.model.listed())
        for name, entry in self.model.entries.items():
            if name != HEAD and entry.system and name not in self.model.standing:
                self.model.standing[name] = Standing(engine=Thing(stamp_for(view.sizes.get(name, 0), self.model.machines)))

    def revert(self) -> None:
        kept = [name for name, one in self.model.entries.items() if name != HEAD and not one.removed]
        self.model.entries[HEAD] = Entry(self.random.choice(["", *kept]))

    def merge_a_piece(self) -> None:
        """A purge that is at work on a removed one that exactly one is built on."""
        entries = self.model.entries
        for name in self.removed():
            children = self.model.children(name)
            if len(children) == 1 and children != [HEAD]:
                child = entries[children[0]]
                lacking = sorted(entries[name].blocks - child.blocks)
                if lacking:
                    child.blocks |= {lacking[0]}
                else:
                    child.parent = entries.pop(name).parent
                return

    def drop_a_leaf(self) -> None:
        for name in self.removed():
            if not self.model.children(name):
                del self.model.entries[name]
                return

    def removed(self) -> list[str]:
        found = [name for name, one in self.model.entries.items() if name != HEAD and one.removed]
        self.random.shuffle(found)
        return found

    # --- people, and the other controllers ---

    def delete(self) -> None:
        """Somebody deletes an object that nothing keeps him from deleting."""
        name, what, thing = self.random.choice(self.things() or [("", "", Thing(None, going=True))])
        if thing.going:
            return
        one = self.model.standing[name]
        held = what == "engine" and (one.snapshot or one.record)
        bound = what == "record" and one.snapshot and not one.snapshot.going
        if not held and not bound:
            self.go(thing)

    def go(self, thing: Thing) -> None:
        thing.going, thing.version = True, thing.version + 1

    def work(self) -> None:
        """The binder, the syncer and the controller of engine Snapshots: each lets go of what takes nothing any more."""
        for name, one in list(self.model.standing.items()):
            entry = self.model.entries.get(name)
            if one.snapshot and one.snapshot.going and one.record and not one.record.going and not one.retain:
                self.go(one.record)
            if one.record and one.record.going and not one.retain and one.engine and not one.engine.going:
                self.go(one.engine)
            if one.engine and one.engine.going and entry is not None:
                entry.removed = True
            deleted = entry is None or entry.removed
            if one.record and one.record.going and (one.retain or deleted) and released(one.record, counted=one.charged):
                one.record = None
            if one.snapshot and one.snapshot.going and (one.record is None or one.retain) and released(one.snapshot):
                one.snapshot = None
            if one.engine and one.engine.going and entry is None and released(one.engine):
                one.engine = None
            if not one.things():
                del self.model.standing[name]

    def plug(self) -> None:
        self.model.machines = self.random.choice([("db",), ("db", "web"), ("web",), ()])

    # --- what is tested ---

    def look(self) -> None:
        """The controller is told of something, and makes a plan."""
        plan = self.plan()
        self.raises, self.lowers = list(plan.raises), list(plan.lowers)
        self.versions = {f"{what} {name}": thing.version for name, what, thing in self.things()}

    def plan(self) -> Plan:
        engine = Engine(
            spec=EngineSpec(active=True),
            status=EngineStatus(snapshots={name: info_of(one) for name, one in self.model.listed().items()}),
        )
        traces = [_trace(self.model, name) for name in self.model.standing]
        cuts = measured(traces, view_of([engine]), has_volume=True)
        return ordered(change for cut in cuts for change in wanted(cut))

    def write_one(self) -> None:
        """One write of the plan, on condition that nobody has changed the object. A conflict ends the plan."""
        ahead = self.raises or self.lowers
        if not ahead:
            return
        change = ahead.pop(self.random.randrange(len(ahead)))
        what, name = change.bearer.uid.split(" ")
        one = self.model.standing.get(name)
        thing = dict(one.things()).get(what) if one is not None else None
        if one is None or thing is None or thing.version != self.versions[change.bearer.uid]:
            self.raises, self.lowers = [], []
            return
        thing.stamp, thing.version = change.stamp, thing.version + 1
        self.versions[change.bearer.uid] = thing.version
        if what == "record":
            one.charged = one.charged or bool(change.namespace)

    def things(self) -> list[tuple[str, str, Thing]]:
        return [(name, what, thing) for name, one in self.model.standing.items() for what, thing in one.things()]

    def come_to_rest(self) -> None:
        """Left alone, what is booked becomes what is there, of every account; and all that was deleted goes."""
        seen: list[str] = []
        while repr(self.model) not in seen:
            seen.append(repr(self.model))
            self.show()
            self.work()
            self.drop_a_leaf()
            for _ in range(BLOCKS + 1):
                self.merge_a_piece()
            self.look()
            while self.raises or self.lowers:
                self.write_one()
                assert self.model.counted() >= self.model.truth()
        assert not self.plan()
        rest = self.model.truth() + self.stuck()
        assert self.model.counted() == rest
        for machine in ("db", "web"):
            assert self.model.counted(machine) == (rest if machine in self.model.machines else 0)
        assert not [name for name, what, thing in self.things() if thing.going and name not in self.model.entries]

    def stuck(self) -> int:
        """What no purge can merge, since several snapshots are built on it: it is somebody's in the end."""
        heirs = merges_of(self.model.listed()).heirs
        return sum(len(one.blocks) for name, one in self.model.entries.items() if heirs.get(name, HEAD) != HEAD)


def released(thing: Thing, *, counted: bool = True) -> bool:
    """The rule that all the controllers follow: what still pays stays."""
    return not counted or thing.stamp is None or not thing.stamp.takes


@pytest.mark.parametrize("seed", range(0, 200, 20))
def test_usage_follows_and_never_is_less_than_what_is_there(seed: int) -> None:
    for number in range(seed, seed + 20):
        Walk(number).run(steps=120)
