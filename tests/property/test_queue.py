"""The queue against a model that knows, for each key, by when a run of it is owed.

No key is lost: whatever was added runs by the time it was asked for, if workers take keys. None runs twice at once. Backoff
never shrinks while a key keeps failing, and starts over once a run went well.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ullage.clock import FakeClock
from ullage.kube.backoff import Backoff
from ullage.kube.controller.queue import Queue

KEYS = st.sampled_from("abcde")
DELAYS = st.sampled_from([0.0, 0.5, 1.0, 3.0, 10.0, 100.0])
BACKOFF = Backoff(first=0.5, cap=20.0)


class QueueMachine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.clock = FakeClock()
        self.latencies: list[float] = []
        self.queue: Queue[str] = Queue(clock=self.clock, backoff=BACKOFF, waited=self.latencies.append)
        self.owed: dict[str, float] = {}  # by when a run must be possible
        self.running: set[str] = set()
        self.delays: dict[str, list[float]] = {}  # backoff of each key since it last went well

    def owe(self, key: str, moment: float) -> None:
        self.owed[key] = min(moment, self.owed.get(key, moment))

    def due(self) -> set[str]:
        now = self.clock.monotonic()
        return {key for key, moment in self.owed.items() if moment <= now and key not in self.running}

    @rule(key=KEYS, after=DELAYS)
    def add(self, key: str, after: float) -> None:
        self.queue.add(key, after=after)
        self.owe(key, self.clock.monotonic() + after)

    @rule(seconds=st.sampled_from([0.25, 1.0, 7.0, 50.0]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule()
    def take(self) -> None:
        due = self.due()
        key = self.queue.pop()
        if key is None:
            assert not due, f"{due} are due and were not given out"
            return
        assert key not in self.running, f"{key} runs twice at once"
        assert key in due, f"{key} was given out though nobody is owed a run now"
        assert self.latencies.pop() == self.clock.monotonic() - self.owed.pop(key)
        self.running.add(key)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), after=st.none() | DELAYS)
    def succeed(self, data: st.DataObject, after: float | None) -> None:
        key = data.draw(st.sampled_from(sorted(self.running)))
        self.queue.done(key, after=after)
        self.running.remove(key)
        self.delays.pop(key, None)
        if after is not None:
            self.owe(key, self.clock.monotonic() + after)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.running)))
        delay = self.queue.failed(key)
        self.running.remove(key)
        before = self.delays.setdefault(key, [])
        assert delay == BACKOFF.first if not before else delay == min(before[-1] * 2, BACKOFF.cap)
        before.append(delay)
        self.owe(key, self.clock.monotonic() + delay)

    @invariant()
    def what_is_shown_is_true(self) -> None:
        if not hasattr(self, "queue"):
            return
        assert len(self.queue) == len(self.due())
        assert self.queue.running == len(self.running)
        waiting = [moment for key, moment in self.owed.items() if key not in self.running | self.due()]
        assert self.queue.waiting == len(waiting)
        assert self.queue.due_in() == (min(waiting) - self.clock.monotonic() if waiting else None)

    def teardown(self) -> None:
        """In the end everything owed is run: let all that runs finish, and wait for the last moment."""
        if not hasattr(self, "queue"):
            return
        for key in sorted(self.running):
            self.queue.done(key)
        self.running.clear()
        self.clock.advance(1000.0)
        rest = set()
        while (left := self.queue.pop()) is not None:
            rest.add(left)
            self.queue.done(left)
        assert rest == set(self.owed), "a key was lost, or made up"
        assert self.queue.waiting == self.queue.running == len(self.queue) == 0


QueueMachine.TestCase.settings = settings(max_examples=200, stateful_step_count=60, deadline=None)
TestQueue = QueueMachine.TestCase
