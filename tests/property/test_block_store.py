"""Whatever is done to a volume, in whatever order, and wherever it is cut off: it shows what was written to it.

A random walk of calls on the embedded engine's store, next to a model of dictionaries. Any call may be cut off before any of
its changes of a file: on a real disk by the end of the process, on one in memory by the end of power as well, which takes
what nobody synced, piece by piece, by chance.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.unit.engines.local.store.crashes import NOW, agrees, head_agrees, possible
from tests.unit.engines.local.store.disks import Forgetful, Killed, Killing
from tests.unit.engines.local.store.model import ZEROS, Vol, same, seen
from ullage.engines.local.store.errors import Refused
from ullage.engines.local.store.files import DiskFiles, Files
from ullage.engines.local.store.record import BLOCK
from ullage.engines.local.store.store import Store
from ullage.engines.local.store.volume import StoredVolume

BLOCKS = 6
NAMES = st.sampled_from(["s1", "s2", "s3", "s4"])
CUT = st.none() | st.integers(0, 12) | st.integers(0, 30)  # before which change of a file
LUCK = st.none() | st.integers(0, 999)  # whether the power goes, too
OFFSETS = st.integers(0, BLOCKS * BLOCK - 1) | st.integers(0, BLOCKS - 1).map(lambda block: block * BLOCK)
LENGTHS = st.integers(0, 3 * BLOCK) | st.integers(1, 3).map(lambda blocks: blocks * BLOCK)


class Walk(RuleBasedStateMachine):
    """One volume at a time; a clone takes the place of its source."""

    power = True  # whether the disk can lose it

    def __init__(self) -> None:
        super().__init__()
        self.disk = self.make_disk()
        self.name = "v0"
        self.model = Vol((ZEROS,) * BLOCKS)
        self.unfinished = False  # a purge; what it has moved is on no disk yet
        self.open()
        self.store.create(self.name, size=BLOCKS * BLOCK)

    def make_disk(self) -> Files:
        return Forgetful()

    def open(self) -> None:
        self.files = Killing(self.disk)
        self.store = Store(self.files)

    @property
    def volume(self) -> StoredVolume:
        return self.store.volume(self.name)

    def crash(self, luck: int | None) -> bool:
        """Gives whether the power went, too."""
        if luck is not None and isinstance(self.disk, Forgetful):
            self.disk.cut_power(Random(luck))
        self.open()
        return luck is not None and self.power

    def attempt(self, act: Callable[[StoredVolume], object], cut: int | None) -> bool:
        """Whether it came to its end."""
        volume = self.volume
        volume.view()
        self.files.kill_before(cut)
        try:
            act(volume)
        except Killed:
            return False
        self.files.kill_before(None)
        return True

    def change(self, act: Callable[[StoredVolume], object], after: Vol, *, cut: int | None, luck: int | None) -> None:
        """It has happened, or it has not; the head may be torn where it was being written, or not synced."""
        if self.attempt(act, cut):
            self.model = after
            return
        power = self.crash(luck)
        actual = seen(self.volume)
        before = self.model
        for wanted in (before, after):
            doubt = possible(wanted, before, after, whole=False, power=power)
            expected = self.after_power(actual, wanted) if power else wanted
            if agrees(actual, expected, doubt):
                left = {} if power else wanted.doubt | after.doubt
                self.model = replace(expected, shows=actual.shows, holds=actual.holds, doubt=left)
                return
        pytest.fail(f"{actual}\nis neither\n{before}\nnor\n{after}")

    def after_power(self, actual: Vol, wanted: Vol) -> Vol:
        """Where the blocks of a purge that did not end lie now: at either end, and they show the same."""
        if not self.unfinished or actual.snaps.keys() != wanted.snaps.keys():
            return wanted
        return replace(
            wanted, snaps={name: replace(snap, holds=actual.snaps[name].holds) for name, snap in wanted.snaps.items()}
        )

    def refused(self, act: Callable[[StoredVolume], object]) -> None:
        with pytest.raises(Refused):
            act(self.volume)

    @rule(offset=OFFSETS, length=LENGTHS, letter=st.sampled_from(b"\0abcdefgh"), cut=CUT, luck=LUCK)
    def write(self, offset: int, length: int, letter: int, cut: int | None, luck: int | None) -> None:
        data = bytes((letter,)) * min(length, self.model.size - offset)
        self.change(lambda volume: volume.write_at(offset, data), self.model.write(offset, data), cut=cut, luck=luck)

    @rule(offset=OFFSETS, length=LENGTHS)
    def read(self, offset: int, length: int) -> None:
        length = min(length, self.model.size - offset)
        assert self.volume.read_at(offset, length) == b"".join(self.model.shows)[offset : offset + length]

    @rule()
    def sync(self) -> None:
        self.volume.sync()
        self.model = self.model.synced()

    @rule(name=NAMES, user=st.booleans(), cut=CUT, luck=LUCK)
    def snapshot(self, name: str, user: bool, cut: int | None, luck: int | None) -> None:
        def act(volume: StoredVolume) -> None:
            volume.snapshot(name, created=NOW, user_created=user)

        if name in self.model.snaps or self.model.refuses_snapshot(user=user):
            self.refused(act)
        else:
            self.change(act, self.model.snapshot(name, user=user), cut=cut, luck=luck)

    @rule(name=NAMES, cut=CUT, luck=LUCK)
    def mark(self, name: str, cut: int | None, luck: int | None) -> None:
        self.change(lambda volume: volume.mark_removed(name), self.model.mark(name), cut=cut, luck=luck)

    @rule(name=NAMES, cut=CUT, luck=LUCK)
    def revert(self, name: str, cut: int | None, luck: int | None) -> None:
        snap = self.model.snaps.get(name)
        if snap is None or snap.removed:
            self.refused(lambda volume: volume.revert(name, created=NOW))
        else:
            self.change(lambda volume: volume.revert(name, created=NOW), self.model.revert(name), cut=cut, luck=luck)

    @precondition(lambda self: len(self.model.shows) < BLOCKS + 3)
    @rule(more=st.integers(1, 2), cut=CUT, luck=LUCK)
    def expand(self, more: int, cut: int | None, luck: int | None) -> None:
        blocks = len(self.model.shows) + more
        if self.model.refuses_snapshot():
            self.refused(lambda volume: volume.expand(blocks * BLOCK, created=NOW))
        else:
            after = self.model.expand(blocks)
            self.change(lambda volume: volume.expand(blocks * BLOCK, created=NOW), after, cut=cut, luck=luck)

    @rule(cut=CUT, luck=LUCK, stop=st.none() | st.none() | st.integers(0, 3))
    def purge(self, cut: int | None, luck: int | None, stop: int | None) -> None:
        """Cut off, or stopped, anywhere in between: what is wanted shows the same, and a purge from there ends the same."""
        pieces = iter(range(1000))

        def cancelled() -> bool:
            return stop is not None and next(pieces) >= stop

        before, after = self.model, self.model.purge()
        done = self.attempt(lambda volume: volume.purge(cancelled=cancelled), cut)
        power = False if done else self.crash(luck)
        self.unfinished = not (done and stop is None) and not power
        if done and stop is None:
            self.model = replace(after, doubt=before.doubt)
            return
        actual = seen(self.volume)
        assert head_agrees(actual, before, before.doubt if power else {})
        wanted = {name: snap.shows for name, snap in after.snaps.items() if not snap.removed}
        blocks = len(before.shows)
        for name, shows in wanted.items():
            assert shows is not None
            assert actual.snaps[name].shows == shows + (ZEROS,) * (blocks - len(shows))
        self.model = replace(actual, doubt={} if power else before.doubt)

    @rule(count=st.integers(1, 5), blocks=st.integers(0, 12))
    def limit(self, count: int, blocks: int) -> None:
        usage = self.volume.view().usage
        if count >= usage.count and blocks * BLOCK >= usage.size:
            self.volume.set_max_count(count)
            self.volume.set_max_size(blocks * BLOCK)
            self.model = replace(self.model, max_count=count, max_size=blocks * BLOCK)

    @rule(name=NAMES, cut=CUT, luck=LUCK)
    def clone(self, name: str, cut: int | None, luck: int | None) -> None:
        """Into a new volume. If that succeeds, the source goes and the clone is what we walk on with."""
        target = f"v{int(self.name[1:]) + 1}"
        empty = Vol((ZEROS,) * len(self.model.shows))
        self.store.delete(target)  # one that was cut off before
        copy = self.store.create(target, size=self.model.size)
        snap = self.model.snaps.get(name)
        if snap is None or snap.shows is None:
            with pytest.raises(Refused):
                copy.clone_from(self.volume, name, created=NOW)
            return
        shows = snap.shows + (ZEROS,) * (len(self.model.shows) - len(snap.shows))
        done = self.attempt(lambda volume: copy.clone_from(volume, name, created=NOW), cut)
        power = False if done else self.crash(luck)
        self.check_source(power)
        made = seen(self.store.volume(target))
        assert not done or made.snaps
        assert same(replace(made, snaps={}, parent=""), replace(empty, shows=shows) if made.snaps else empty)
        if done:
            base = f"{target}-base"
            assert made.snaps == {base: replace(snap, parent="", shows=shows, user=False, holds=made.snaps[base].holds)}
            self.store.delete(self.name)
            self.name, self.model, self.unfinished = target, made, False

    def check_source(self, power: bool) -> None:
        actual = seen(self.volume)
        wanted = self.after_power(actual, self.model) if power else self.model
        assert agrees(actual, wanted, wanted.doubt if power else {})
        doubt = {} if power else self.model.doubt
        self.model = replace(wanted, shows=actual.shows, holds=actual.holds, doubt=doubt)

    @rule(luck=LUCK)
    def end(self, luck: int | None) -> None:
        """Between two calls."""
        self.check_source(self.crash(luck))

    @invariant()
    def shows_what_it_should(self) -> None:
        actual = seen(self.volume)
        assert same(actual, self.model), f"{actual}\nis not\n{self.model}"


class WalkOnDisk(Walk):
    """On files. The power stays."""

    power = False

    def make_disk(self) -> Files:
        self.root = Path(tempfile.mkdtemp())
        return DiskFiles(self.root)

    def teardown(self) -> None:
        self.disk.close()
        shutil.rmtree(self.root)


def test_a_purge_that_was_cut_off_before_it_synced_is_ended_by_the_next() -> None:
    """What the first has punched out is gone for the second, which has nothing to do but to sync it."""
    walk = Walk()
    walk.write(offset=BLOCK - 1, length=2, letter=0, cut=None, luck=None)
    walk.expand(more=1, cut=None, luck=None)
    walk.purge(cut=None, luck=None, stop=None)
    walk.write(offset=0, length=1, letter=0, cut=None, luck=None)
    walk.write(offset=BLOCK, length=1, letter=0, cut=None, luck=None)
    walk.purge(cut=3, luck=None, stop=None)
    walk.purge(cut=None, luck=None, stop=None)
    walk.end(luck=0)
    walk.shows_what_it_should()


_RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
TestWalkWithoutPower = Walk.TestCase
TestWalkWithoutPower.settings = settings(_RELAXED, max_examples=150, stateful_step_count=30)
TestWalkOnDisk = WalkOnDisk.TestCase
TestWalkOnDisk.settings = settings(_RELAXED, max_examples=25, stateful_step_count=25)
