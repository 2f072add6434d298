"""One change of a volume, cut off at every step: by the end of the process, and by the end of power."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from random import Random

from tests.unit.engines.local.store.disks import Forgetful, Killed, Killing, Skips
from tests.unit.engines.local.store.model import ZEROS, Doubt, Vol, same, seen
from ullage.engines.local.store.record import BLOCK
from ullage.engines.local.store.store import Store
from ullage.engines.local.store.volume import StoredVolume

NOW = "2026-01-02T03:04:05Z"
SIZE = 12
LUCK = 6  # power cuts tried at each step


class End(Enum):
    """How it ends."""

    KILLED = "killed"
    POWER = "without power"
    BOTH = "killed, and without power later"  # when the next process has read the volume, and cleaned up


def none(_: str) -> bool:
    return False


@dataclass
class Both:
    """A volume and what it should be, changed together."""

    volume: StoredVolume
    model: Vol

    def write(self, block: int, letters: str) -> Both:
        data = b"".join(letter.encode() * BLOCK for letter in letters)
        self.volume.write_at(block * BLOCK, data)
        self.model = self.model.write(block * BLOCK, data)
        return self

    def snapshot(self, name: str, *, user: bool = True) -> Both:
        self.volume.snapshot(name, created=NOW, user_created=user)
        self.model = self.model.snapshot(name, user=user)
        return self

    def mark(self, *names: str) -> Both:
        for name in names:
            self.volume.mark_removed(name)
            self.model = self.model.mark(name)
        return self

    def revert(self, name: str) -> Both:
        self.volume.revert(name, created=NOW)
        self.model = self.model.revert(name)
        return self

    def purge(self) -> Both:
        self.volume.purge()
        self.model = self.model.purge()
        return self


@dataclass(frozen=True)
class Change:
    """A change of a volume: what is there before, what is done, and what that makes of it."""

    prepare: Callable[[Both], Both]
    act: Callable[[StoredVolume], object]
    after: Callable[[Vol], Vol]


def chain(both: Both) -> Both:
    """Three snapshots, and a head that covers some of each; what the head holds is on no disk yet."""
    both.write(0, "aaaaaa").snapshot("s1").write(2, "bbbbbb").snapshot("s2").write(4, "cccccc").snapshot("s3")
    return both.write(0, "d").write(8, "ddd")


def branches(both: Both) -> Both:
    """s1 carries two branches, one of them dead: s2 and s3 on it are marked, and s1 too."""
    return chain(both).revert("s1").write(5, "ee").snapshot("s4").write(0, "f").mark("s1", "s2", "s3")


CHANGES = {
    "a write of three blocks": Change(
        chain, lambda volume: volume.write_at(BLOCK + 7, b"w" * 2 * BLOCK), lambda vol: vol.write(BLOCK + 7, b"w" * 2 * BLOCK)
    ),
    "a snapshot": Change(chain, lambda volume: volume.snapshot("new", created=NOW), lambda vol: vol.snapshot("new", user=True)),
    "a mark": Change(chain, lambda volume: volume.mark_removed("s2"), lambda vol: vol.mark("s2")),
    "a revert": Change(chain, lambda volume: volume.revert("s1", created=NOW), lambda vol: vol.revert("s1")),
    "an expansion": Change(chain, lambda volume: volume.expand(16 * BLOCK, created=NOW), lambda vol: vol.expand(16)),
    "a limit": Change(chain, lambda volume: volume.set_max_count(7), lambda vol: replace(vol, max_count=7)),
    "a purge that merges": Change(lambda both: chain(both).mark("s1", "s2"), StoredVolume.purge, Vol.purge),
    "a purge that prunes": Change(lambda both: chain(both).mark("s3"), StoredVolume.purge, Vol.purge),
    "a purge that deletes a branch and merges its root": Change(branches, StoredVolume.purge, Vol.purge),
    "a purge of the system's snapshots": Change(
        lambda both: chain(both).snapshot("system", user=False).write(3, "g"), StoredVolume.purge, Vol.purge
    ),
}


def cut_everywhere(change: Change, *, end: End, skips_sync: Skips = none) -> int:
    """Checks every place at which the change can be cut off. Gives how many there are."""
    disk = Forgetful()
    both = change.prepare(Both(_made(disk, skips_sync), Vol((ZEROS,) * SIZE)))
    assert same(seen(both.volume), both.model)
    step, whole = 0, False
    while not whole:
        for luck in range(1 if end is End.KILLED else LUCK):
            left = deepcopy(disk)
            whole = _run(left, change, step, skips_sync)
            if end is End.BOTH:
                Store(left).volume("v").view()
            if end is not End.KILLED:
                left.cut_power(Random(f"{step} {luck}"))
            _check(left, change, both.model, whole=whole, power=end is not End.KILLED)
        step += 1
    return step


def _made(disk: Forgetful, skips_sync: Skips) -> StoredVolume:
    return Store(Killing(disk, skips_sync=skips_sync)).create("v", size=SIZE * BLOCK)


def _run(disk: Forgetful, change: Change, step: int, skips_sync: Skips) -> bool:
    """Whether the change came to its end before it was cut off."""
    files = Killing(disk, skips_sync=skips_sync)
    volume = Store(files).volume("v")
    volume.view()
    files.kill_before(step)
    try:
        change.act(volume)
    except Killed:
        return False
    return True


def _check(disk: Forgetful, change: Change, before: Vol, *, whole: bool, power: bool) -> None:
    volume = Store(disk).volume("v")
    actual, after = seen(volume), change.after(before)
    if change.act is not StoredVolume.purge:
        allowed = [after] if whole else [before, after]
        ends = [possible(one, before, after, whole=whole, power=power) for one in allowed]
        assert any(map(partial(agrees, actual), allowed, ends)), f"{actual}\nis none of\n{allowed}"
        return
    assert head_agrees(actual, before, before.doubt if power else {}), "the head shows something else"
    kept = {name for name, snap in after.snaps.items() if not snap.removed}
    assert {name: actual.snaps[name].shows for name in kept} == {name: before.snaps[name].shows for name in kept}
    if whole and not power:
        assert same(actual, after)
    volume.purge()
    assert same(seen(volume), actual.purge()), "a purge that is repeated ends differently"


def possible(wanted: Vol, before: Vol, after: Vol, *, whole: bool, power: bool) -> Doubt:
    """What blocks of the head may be instead: what nobody synced, or what a write was at when it was cut off."""
    if power:
        return wanted.doubt
    if whole or not after.holds:
        return {}
    return {
        number: frozenset((before.shows[number], block))
        for number, block in enumerate(after.shows)
        if block != before.shows[number] or number in after.holds - before.holds
    }


def agrees(actual: Vol, wanted: Vol, doubt: Doubt) -> bool:
    """Whether this may be what is left; where there is doubt, each block of the head is for itself."""
    if doubt:
        if len(actual.shows) != len(wanted.shows) or not head_agrees(actual, wanted, doubt):
            return False
        wanted = replace(wanted, shows=actual.shows, holds=actual.holds)
    return same(actual, wanted)


def head_agrees(actual: Vol, wanted: Vol, doubt: Doubt) -> bool:
    return all(block == wanted.shows[number] or block in doubt.get(number, ()) for number, block in enumerate(actual.shows))


def stores_after(
    prepare: Callable[[Store], object], act: Callable[[Store], object], *, power: bool
) -> Iterator[tuple[bool, Store]]:
    """What is left of a change of the store, cut off at every step, and whether it was whole by then."""
    disk = Forgetful()
    prepare(Store(disk))
    step, whole = 0, False
    while not whole:
        for luck in range(LUCK if power else 1):
            left = deepcopy(disk)
            files = Killing(left)
            store = Store(files)
            files.kill_before(step)
            try:
                act(store)
                whole = True
            except Killed:
                pass
            if power:
                left.cut_power(Random(f"{step} {luck}"))
            yield whole, Store(left)
        step += 1
