"""The ledger's promise, on any interleaving: what was admitted never passes a limit, and at rest the book is the truth.

The world is that of `tests/unit/ledger/world.py`. `ULLAGE_WALKS=20000` makes as many walks as that, not a few hundred, and
needs `--timeout=0`; `tests/unit/ledger/test_weakened.py` holds the interleavings that random walks find too seldom.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.unit.ledger.world import EXPIRY, FAR, JARS, KIND, TOTAL, Folder, World, shelf
from ullage.ledger.book import MOST_ATTEMPTS, MOST_GROWN
from ullage.ledger.fold import clusters_in

NAMES = st.sampled_from(["ax", "ay", "b", "jar", "far"])
PLACES = st.sampled_from(["", "", "a", "b"])  # the shelf that an update moves something to; mostly none
SIZES = st.integers(1, 4)
SKEWS = st.sampled_from([0, -100, 100])
LOST = st.sampled_from([False, False, False, True])
AGO = st.sampled_from([0, 0, 0, 1, 2, 4])


class BookMachine(RuleBasedStateMachine):
    @initialize(
        total=st.integers(3, 8),
        shelf=st.integers(2, 5),
        most=st.sampled_from([3, 5, MOST_ATTEMPTS]),
        most_grown=st.sampled_from([1, 2, MOST_GROWN]),
    )
    def begin(self, total: int, shelf: int, most: int, most_grown: int) -> None:
        self.world = World(most=most, most_grown=most_grown, all=total, a=shelf)
        self.folders = [Folder(), Folder(), Folder()]

    # --- clients and the API server ---

    @rule(name=NAMES, size=SIZES, skew=SKEWS, lost=LOST)
    def create(self, name: str, size: int, skew: float, lost: bool) -> None:
        self.world.create(name, size, skew=skew, lost=lost)

    @precondition(lambda self: self.world.copies)
    @rule(data=st.data(), ago=AGO, size=SIZES, place=PLACES, skew=SKEWS, lost=LOST)
    def update(self, data: st.DataObject, ago: int, size: int, place: str, skew: float, lost: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.world.copies)))
        copy = max(len(self.world.copies[name]) - 1 - ago, 0)
        self.world.update(name, size, place=place, copy=copy, skew=skew, lost=lost)

    @precondition(lambda self: self.world.copies)
    @rule(data=st.data(), ago=AGO, size=SIZES, skew=SKEWS, lost=LOST)
    def grow(self, data: st.DataObject, ago: int, size: int, skew: float, lost: bool) -> None:
        """Told by our own controllers when it has happened: neither limits nor others keep it out of the book."""
        name = data.draw(st.sampled_from(sorted(self.world.copies)))
        copy = max(len(self.world.copies[name]) - 1 - ago, 0)
        room = self.world.book.grown < self.world.most_grown
        admitted = self.world.update(name, size, copy=copy, skew=skew, lost=lost, past_limit=True)
        assert admitted or not room, "growth that has happened is kept out of the book"

    @precondition(lambda self: self.world.flying)
    @rule(data=st.data(), again=st.booleans())
    def commit(self, data: st.DataObject, again: bool) -> None:
        self.world.commit(data.draw(st.sampled_from(self.world.flying)), again=again)

    @precondition(lambda self: self.world.flying)
    @rule(data=st.data(), skew=SKEWS)
    def readmit(self, data: st.DataObject, skew: float) -> None:
        self.world.readmit(data.draw(st.sampled_from(self.world.flying)), skew=skew)

    @precondition(lambda self: self.world.flying)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        self.world.drop(data.draw(st.sampled_from(self.world.flying)))

    @precondition(lambda self: self.world.things)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        self.world.delete(data.draw(st.sampled_from(sorted(self.world.things))))

    @rule(seconds=st.sampled_from([1, 30, EXPIRY + 1]))
    def wait(self, seconds: float) -> None:
        self.world.wait(seconds)

    @rule(seconds=st.sampled_from([10, EXPIRY + 1]))
    def stall(self, seconds: float) -> None:
        self.world.stall(seconds)

    # --- the other cluster ---

    @precondition(lambda self: self.world.far_until is None and len(self.world.histories) == 1)
    @rule()
    def remove_cluster(self) -> None:
        self.world.remove_cluster()

    @precondition(lambda self: self.world.far_until is not None and not clusters_in(self.world.book))
    @rule()
    def add_cluster(self) -> None:
        """Under the same name, once nothing is left of the one before."""
        self.world.add_cluster()

    # --- limits ---

    @rule(more=st.integers(1, 3))
    def raise_limit(self, more: int) -> None:
        self.world.limit(all=self.world.book.limits[TOTAL].value() + more)

    @rule(name=st.sampled_from(["all", "a"]))
    def lower_limit_to_what_is_taken(self, name: str) -> None:
        """As low as a limit may go without refusing what was admitted already."""
        book, cell = self.world.book, TOTAL if name == "all" else shelf("a")
        self.world.limit(**{name: min(book.limits[cell], book.used[cell] + book.reserved[cell]).value()})

    # --- those who fold ---

    @rule(folder=st.integers(0, 2), reads=st.booleans())
    def look(self, folder: int, reads: bool) -> None:
        if reads:
            self.world.look(self.folders[folder])
        else:
            self.world.see(self.folders[folder])

    @precondition(lambda self: any(self.world.due(folder) for folder in self.folders))
    @rule(data=st.data())
    def read_one_that_expired(self, data: st.DataObject) -> None:
        """What is learned is kept: it is used at any later moment, whatever was booked or made since."""
        due = [(one, folder) for folder in self.folders for one in self.world.due(folder)]
        self.world.read(*data.draw(st.sampled_from(due)))

    @precondition(lambda self: any(folder.live for folder in self.folders))
    @rule(data=st.data())
    def forget_lost(self, data: st.DataObject) -> None:
        self.world.forget_lost(data.draw(st.sampled_from([folder for folder in self.folders if folder.live])))

    @rule(folder=st.integers(0, 2), ago=AGO, memory=st.sampled_from([0, 2, 100]), kind=st.sampled_from([KIND, KIND, JARS, FAR]))
    def fold(self, folder: int, ago: int, memory: int, kind: str) -> None:
        at = max(self.world.revision - ago, 0)
        self.world.fold(at, began=max(at - memory, 0), by=self.folders[folder], kind=kind)

    # --- backups ---

    @precondition(lambda self: self.world.revision > 1 and not self.world.far_from and self.world.far_until is None)
    @rule(ago=st.sampled_from([1, 2, 4, 8]), noticed=st.booleans())
    def restore(self, ago: int, noticed: bool) -> None:
        """A server is found to be restored before it has come as far again, or not at all."""
        for kind in (KIND, JARS, FAR):
            self.world.fold(by=self.folders[0], kind=kind)
        self.world.restore(max(self.world.revision - ago, 0))
        if noticed:
            self.world.notice(KIND)
            self.world.notice(JARS)
            self.world.notice(FAR)

    @rule(folder=st.integers(0, 2), kind=st.sampled_from([KIND, JARS, FAR]))
    def list_anew(self, folder: int, kind: str) -> None:
        self.world.list_anew(self.folders[folder], kind)

    @rule(kind=st.sampled_from([KIND, JARS, FAR]))
    def take_a_view_for_the_server(self, kind: str) -> None:
        """Somebody who was held up, and takes a server for restored that is not."""
        self.world.notice(kind, latest=0)

    @rule(folder=st.integers(0, 2))
    def ask_removed(self, folder: int) -> None:
        self.world.ask_removed(self.folders[folder])

    @precondition(lambda self: any(folder.asked for folder in self.folders))
    @rule(data=st.data())
    def drop_removed(self, data: st.DataObject) -> None:
        self.world.drop_removed(data.draw(st.sampled_from([folder for folder in self.folders if folder.asked])))

    @rule(folder=st.integers(0, 2))
    def crash(self, folder: int) -> None:
        self.folders[folder] = Folder()

    # --- what must be so ---

    @invariant()
    def nothing_is_past_its_limit(self) -> None:
        self.world.check()
        self.world.check_sums()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.settle(Folder())
            self.world.check()
            self.world.check_rest()
            self.there_is_room_again()

    def there_is_room_again(self) -> None:
        """However crowded it was: what fits is admitted."""
        self.world.limit(all=self.world.used[TOTAL].value() + 1)
        assert self.world.create("b", 1) is not None, "nothing is on its way, and still it is crowded"


TestBook = BookMachine.TestCase
TestBook.settings = settings(
    max_examples=int(os.environ.get("ULLAGE_WALKS", "150")),
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
