"""Leader election: who leads when, and that never two do."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from tests.unit.kube.virtual_time import VirtualClock, VirtualLoop, in_virtual_time
from ullage.kube.builtin.coordination import Lease, LeaseSpec
from ullage.kube.controller.candidate import AcquireLease, Candidate, Record, Timing, Wait
from ullage.kube.controller.lease import Elector, NotLeading, own_identity
from ullage.kube.errors import AlreadyExists, Conflict, Forbidden, NotFound, Unavailable
from ullage.kube.kinds import Meta

TIMING = Timing(duration=15, renew_within=10, retry=2)
Trouble = Callable[[], Awaitable[None]]


# --- an API that holds one Lease -------------------------------------------------------------------------------------


class LeaseApi:
    """One Lease with versions, and a line to it for each candidate."""

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self.version = 0
        self.history: list[LeaseSpec] = []

    def put(self, spec: LeaseSpec, uid: str = "") -> Lease:
        self.version += 1
        meta = Meta(name="l", namespace="n", uid=uid or f"uid-{self.version}", resource_version=str(self.version))
        self.lease = Lease(metadata=meta, spec=spec)
        self.history.append(spec)
        return self.lease

    def edit(self, **changes: Any) -> None:
        assert self.lease is not None
        self.put(msgspec.structs.replace(self.lease.spec, **changes), self.lease.metadata.uid)

    def line(self) -> Line:
        return Line(self)

    @property
    def spec(self) -> LeaseSpec:
        assert self.lease is not None
        return self.lease.spec


@dataclass
class Line:
    """What a client is to the elector, with switchable trouble before and after the server acts."""

    api: LeaseApi
    before: Trouble | None = None
    after: Trouble | None = None
    writes: int = 0

    async def find(self, kind: object, name: str, namespace: str) -> Lease | None:
        await self._trouble(self.before)
        return self.api.lease

    async def create(self, kind: object, lease: Lease) -> Lease:
        await self._trouble(self.before)
        if self.api.lease is not None:
            raise AlreadyExists("there is one", code=409)
        return await self._done(self.api.put(lease.spec))

    async def patch(self, kind: object, *_: str, merge: dict[str, Any], uid: str, resource_version: str) -> Lease:
        await self._trouble(self.before)
        live = self.api.lease
        if live is None:
            raise NotFound("gone", code=404)
        if (uid, resource_version) != (live.metadata.uid, live.metadata.resource_version):
            raise Conflict("changed", code=409)
        spec = msgspec.convert({**msgspec.to_builtins(live.spec), **merge["spec"]}, LeaseSpec)
        return await self._done(self.api.put(spec, live.metadata.uid))

    async def _done(self, lease: Lease) -> Lease:
        self.writes += 1
        await self._trouble(self.after)
        return lease

    async def _trouble(self, trouble: Trouble | None) -> None:
        await asyncio.sleep(0.01)
        if trouble is not None:
            await trouble()


async def down() -> None:
    raise Unavailable("connection refused", sent=False)


async def silent() -> None:
    await asyncio.Event().wait()


async def forbidden() -> None:
    raise Forbidden("no", code=403)


def once(trouble: Trouble) -> Trouble:
    left = [trouble]

    async def first() -> None:
        if left:
            await left.pop()()

    return first


# --- candidates that work --------------------------------------------------------------------------------------------


@dataclass
class Runner:
    """One process: an elector whose work writes to a shared log ten times a second, if the guard lets it."""

    name: str
    api: LeaseApi
    log: list[tuple[float, str]]
    clock: VirtualClock = field(default_factory=VirtualClock)
    events: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.line = self.api.line()
        client: Any = self.line
        self.elector = Elector(
            client, "l", namespace="n", identity=self.name, timing=TIMING, clock=self.clock, observe=self.events.append
        )

    async def work(self) -> None:
        while True:
            with contextlib.suppress(NotLeading):
                self.elector.guard()
                self.log.append((now(), self.name))
            await asyncio.sleep(0.1)

    def start(self, work: Callable[[], Awaitable[None]] | None = None) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(self.elector.run(work or self.work))

    def wrote(self) -> list[float]:
        return [moment for moment, name in self.log if name == self.name]


def now() -> float:
    return asyncio.get_running_loop().time()


async def end(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def pair(**clock: float) -> AsyncIterator[tuple[Runner, Runner]]:
    """Two candidates; the first leads."""
    api, log = LeaseApi(), list[tuple[float, str]]()
    one, other = Runner("one", api, log), Runner("other", api, log, clock=VirtualClock(**clock))
    tasks = [one.start()]
    await asyncio.sleep(1)
    tasks.append(other.start())
    await asyncio.sleep(5)
    assert one.elector.leading
    try:
        yield one, other
    finally:
        one.line.before = other.line.before = one.line.after = other.line.after = None
        await end(*tasks)


def virtual(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """The test runs in virtual time; its parameters stay visible to pytest."""

    @functools.wraps(test)
    def run(**arguments: Any) -> None:
        in_virtual_time(test(**arguments))

    return run


@virtual
async def test_the_first_candidate_makes_the_lease_and_leads() -> None:
    runner = Runner("one", LeaseApi(), [])
    with pytest.raises(NotLeading, match="one does not lead n/l"):
        runner.elector.guard()
    task = runner.start()
    await asyncio.sleep(1)
    runner.elector.guard()
    assert runner.api.spec == LeaseSpec(
        holder_identity="one",
        lease_duration_seconds=15,
        acquire_time=runner.api.spec.renew_time,
        renew_time=runner.api.spec.renew_time,
        lease_transitions=0,
    )
    await end(task)


@virtual
async def test_a_leader_renews_and_the_other_waits() -> None:
    async with pair() as (one, other):
        acquired = one.api.spec.acquire_time
        await asyncio.sleep(100)
        assert one.elector.leading
        assert one.api.spec.acquire_time == acquired
        assert one.api.spec.renew_time != acquired
        assert (other.wrote(), other.elector.holder) == ([], "one")
        assert one.line.writes < 60, "one write per retry"


@pytest.mark.parametrize("trouble", [down, silent], ids=["is cut off from the API", "gets no more answers"])
@virtual
async def test_a_leader_that(trouble: Trouble) -> None:
    """…stops by its deadline, before the other begins; which it does within the duration and one retry."""
    async with pair() as (one, other):
        one.line.before = trouble
        cut = now()
        await asyncio.sleep(40)
        assert max(one.wrote()) < cut + TIMING.renew_within
        assert max(one.wrote()) < min(other.wrote())
        assert min(other.wrote()) <= cut + TIMING.duration + TIMING.retry
        assert (other.api.spec.holder_identity, other.api.spec.lease_transitions) == ("other", 1)
        assert "lost" in one.events


@pytest.mark.parametrize(
    "clock",
    [
        pytest.param({"skew": 3600.0}, id="an hour fast"),
        pytest.param({"skew": -3600.0}, id="an hour slow"),
        pytest.param({"offset": 1e6}, id="up for longer"),
        pytest.param({"offset": -900.0}, id="just started"),
    ],
)
@virtual
async def test_another_clock_changes_nothing(clock: dict[str, float]) -> None:
    async with pair(**clock) as (one, other):
        await asyncio.sleep(60)
        assert other.wrote() == []
        one.line.before = down
        cut = now()
        await asyncio.sleep(40)
        assert max(one.wrote()) < min(other.wrote()) <= cut + TIMING.duration + TIMING.retry
        assert min(other.wrote()) >= cut + TIMING.renew_within


@virtual
async def test_a_leader_that_stops_lets_its_work_end_and_then_gives_the_lease_back() -> None:
    async with pair() as (one, other):
        wound_up: list[str] = []

        async def work() -> None:
            try:
                await silent()
            finally:
                await asyncio.sleep(30)  # longer than a lease that is not renewed
                one.elector.guard()
                wound_up.append(one.api.spec.holder_identity or "")

        await end(*(task for task in asyncio.all_tasks() if task is not asyncio.current_task()))
        slow, waiting = one.start(work), other.start()
        await asyncio.sleep(20)
        stopped = now()
        slow.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await slow
        assert wound_up == ["one"]
        assert one.api.spec.holder_identity == ""
        await asyncio.sleep(TIMING.retry + 0.1)
        assert other.elector.leading
        assert min(other.wrote()) >= stopped + 30
        await end(waiting)


@virtual
async def test_who_waits_says_for_whom_once_for_each_holder_and_who_leads_says_so(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    async with pair() as (one, _):
        await asyncio.sleep(20)
        one.api.edit(holder_identity="somebody")
        await asyncio.sleep(20)
    told = [(record.getMessage(), record.__dict__["identity"], record.__dict__.get("holder")) for record in caplog.records]
    assert told[:2] == [("leading", "one", None), ("waiting for the lease", "other", "one")]
    assert told.count(("waiting for the lease", "other", "somebody")) == 1
    assert told.count(("waiting for the lease", "one", "somebody")) == 1


@pytest.mark.parametrize("trouble", [down, silent], ids=["is away", "gives no answers"])
@virtual
async def test_who_is_asked_to_stop_while_the_api(trouble: Trouble) -> None:
    """…does not run for the lease again when it is lost meanwhile, and waits for no answer."""
    runner, stop = Runner("one", LeaseApi(), []), asyncio.Event()

    async def slow() -> None:
        await asyncio.sleep(TIMING.renew_within * 3)

    task = asyncio.ensure_future(runner.elector.run(slow, stop=stop))
    await asyncio.sleep(1)
    assert runner.elector.leading
    runner.line.before = trouble
    stop.set()
    await asyncio.wait({task}, timeout=TIMING.renew_within + 3)
    assert task.done()
    await task
    assert "lost" in runner.events


@pytest.mark.parametrize("trouble", [None, down, silent], ids=["is led by another", "has no API", "gets no answers"])
@virtual
async def test_who_is_asked_to_stop_and_stands_by_ends_at_once(trouble: Trouble | None) -> None:
    async with pair() as (one, other):
        stop, waiting = asyncio.Event(), Runner("third", other.api, [])
        waiting.line.before = trouble
        task = asyncio.ensure_future(waiting.elector.run(waiting.work, stop=stop))
        await asyncio.sleep(3)
        stop.set()
        asked = now()
        await task
        assert now() - asked < 0.1
        assert (waiting.wrote(), one.api.spec.holder_identity) == ([], "one")


@virtual
async def test_work_that_does_not_end_keeps_the_lease_from_being_given_back() -> None:
    runner = Runner("one", LeaseApi(), [])

    async def stubborn() -> None:
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(1000)
                return

    task = runner.start(stubborn)
    await asyncio.sleep(1)
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0.1)
    await asyncio.gather(task, return_exceptions=True)
    assert runner.api.spec.holder_identity == "one"
    assert not runner.elector.leading
    await asyncio.sleep(2000)


@virtual
async def test_work_that_returns_ends_the_run_and_releases() -> None:
    runner = Runner("one", LeaseApi(), [])

    async def brief() -> None:
        runner.elector.guard()

    await runner.start(brief)
    assert runner.api.spec.holder_identity == ""
    assert runner.events == ["acquired", "released"]


@pytest.mark.parametrize("trouble", ["arrives all the same", "finds it taken"])
@virtual
async def test_a_renewal_that_is_cancelled_on_the_way_out(trouble: str) -> None:
    runner = Runner("one", LeaseApi(), [])
    task = runner.start()
    await asyncio.sleep(TIMING.retry / 2)
    runner.line.after = once(silent)  # the next renewal is written, and its answer never comes
    await asyncio.sleep(TIMING.retry)
    if trouble == "finds it taken":
        runner.api.edit(holder_identity="two")
    await end(task)
    ours = trouble == "arrives all the same"
    assert runner.api.spec.holder_identity == ("" if ours else "two")
    assert ("released" in runner.events) == ours


@virtual
async def test_work_that_fails_ends_the_run_with_its_error_and_releases() -> None:
    runner = Runner("one", LeaseApi(), [])

    async def broken() -> None:
        raise RuntimeError("bug")

    with pytest.raises(RuntimeError, match="bug"):
        await runner.start(broken)
    assert runner.api.spec.holder_identity == ""


@pytest.mark.parametrize("grouped", [False, True], ids=["alone", "in a group"])
@virtual
async def test_work_that_was_refused_a_write_is_started_again_in_a_new_tenure(grouped: bool) -> None:
    runner = Runner("one", LeaseApi(), [])
    runs = 0

    async def work() -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            raise ExceptionGroup("several", [NotLeading("late")]) if grouped else NotLeading("late")

    await runner.start(work)
    assert runs == 2
    assert runner.events == ["acquired", "lost", "acquired", "released"]


@virtual
async def test_to_find_somebody_else_in_the_record_ends_a_tenure_at_once() -> None:
    async with pair() as (one, _):
        one.api.edit(holder_identity="somebody", lease_transitions=7)
        edited = now()
        await asyncio.sleep(12)
        assert max(one.wrote()) < edited + TIMING.retry + 0.2
        assert one.api.spec.holder_identity == "somebody"


@virtual
async def test_an_edit_of_the_lease_does_not_end_a_tenure() -> None:
    async with pair() as (one, other):
        for _ in range(20):
            one.api.edit(lease_transitions=3)
            await asyncio.sleep(3)
        assert one.elector.leading
        assert "lost" not in one.events
        assert (one.api.spec.lease_transitions, other.wrote()) == (3, [])


@virtual
async def test_a_deleted_lease_ends_the_tenure_and_begins_a_new_one() -> None:
    runner = Runner("one", LeaseApi(), [])
    task = runner.start()
    await asyncio.sleep(5)
    runner.api.lease = None
    await asyncio.sleep(5)
    assert "lost" in runner.events
    assert runner.elector.leading
    await end(task)


@virtual
async def test_a_claim_whose_answer_was_lost_is_found_at_the_next_look() -> None:
    runner = Runner("one", LeaseApi(), [])
    runner.line.after = once(down)
    task = runner.start()
    await asyncio.sleep(TIMING.retry / 2)
    assert runner.api.spec.holder_identity == "one"
    assert not runner.elector.leading
    await asyncio.sleep(TIMING.retry)
    assert runner.elector.leading
    assert runner.api.spec.lease_transitions == 0
    await end(task)


@virtual
async def test_a_renewal_whose_answer_was_lost_does_not_end_a_tenure() -> None:
    async with pair() as (one, _):
        one.line.after = once(down)
        await asyncio.sleep(30)
        assert one.elector.leading
        assert (one.events.count("failed"), "lost" in one.events) == (1, False)


@virtual
async def test_an_answer_that_comes_after_the_deadline_gives_nothing() -> None:
    """The process was stopped while it waited for the answer: the time is counted from before the request."""
    runner = Runner("one", LeaseApi(), [])
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    led: list[bool] = []

    async def stopped() -> None:
        loop.moment += 2 * TIMING.duration  # nothing of the process runs meanwhile, and the answer is there at once

    task = runner.start()
    await asyncio.sleep(1)
    runner.line.after = once(stopped)
    runner.elector._observe = lambda event: led.append(runner.elector.leading) if event == "renewed" else None
    await asyncio.sleep(2 * TIMING.duration + 1)
    assert led[0] is False
    await end(task)


@virtual
async def test_who_may_not_touch_leases_keeps_trying_and_tells() -> None:
    runner = Runner("one", LeaseApi(), [])
    runner.line.before = forbidden
    task = runner.start()
    await asyncio.sleep(20)
    assert runner.events.count("failed") >= 9
    runner.line.before = None
    await asyncio.sleep(TIMING.retry + 0.1)
    assert runner.elector.leading
    await end(task)


@virtual
async def test_ten_candidates_that_start_together_elect_one() -> None:
    api, log = LeaseApi(), list[tuple[float, str]]()
    runners = [Runner(f"c{number}", api, log) for number in range(10)]
    tasks = [runner.start() for runner in runners]
    await asyncio.sleep(10)
    assert [runner.elector.leading for runner in runners].count(True) == 1
    assert len({name for _, name in log}) == 1
    await end(*tasks)


def test_identities_are_never_used_twice() -> None:
    assert own_identity() != own_identity()


@pytest.mark.parametrize(("duration", "renew", "retry"), [(10, 10, 2), (15, 10, 10), (15, 10, 0), (15, 16, 2)])
def test_times_that_cannot_be_safe_are_refused(duration: float, renew: float, retry: float) -> None:
    with pytest.raises(ValueError, match="must hold"):
        Timing(duration, renew, retry)


# --- the transitions -------------------------------------------------------------------------------------------------

THEIRS = Record("5", "u", holder="other", duration=15, transitions=3)


@pytest.mark.parametrize(
    ("record", "waited", "wish"),
    [
        pytest.param(None, 0, AcquireLease(None, transitions=0, anew=True), id="no lease is made at once"),
        pytest.param(Record("5"), 0, AcquireLease(Record("5"), transitions=1, anew=True), id="a free lease is taken at once"),
        pytest.param(THEIRS, 0, Wait(2), id="a lease that was just seen is left alone"),
        pytest.param(THEIRS, 14, Wait(1), id="the last look comes when the duration is over"),
        pytest.param(THEIRS, 15, AcquireLease(THEIRS, transitions=4, anew=True), id="a lease that stayed as it is is taken"),
        pytest.param(
            Record("5", holder="other", duration=60), 30, Wait(2), id="a holder with a longer lease is given its time"
        ),
        pytest.param(
            Record("5", holder="me", transitions=3),
            0,
            AcquireLease(Record("5", holder="me", transitions=3), transitions=3, anew=True),
            id="a claim of ours is taken up",
        ),
    ],
)
def test_what_a_candidate_does_with_what_it_sees(record: Record | None, waited: float, wish: AcquireLease | Wait) -> None:
    candidate = Candidate("me", TIMING).see(record, now=100)
    assert candidate.wish(100 + waited) == wish


def test_any_change_of_the_record_starts_the_wait_anew() -> None:
    seen = Candidate("me", TIMING).see(THEIRS, now=100).see(Record("6", "u", holder="other", duration=15), now=114)
    assert seen.wish(116) == Wait(2)
    again = Candidate("me", TIMING).see(THEIRS, now=100).see(THEIRS, now=114)
    assert isinstance(again.wish(116), AcquireLease)


class Election:
    """Candidates whose clocks agree on nothing but the rate; requests and answers that are late, overtaken or lost."""

    PAUSES = (0.0, 0.0, 0.0, 0.1, 0.5, 2.0, 9.0, 14.0)

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.time = 0.0
        self.live: Record | None = None
        self.version = 0
        self.offsets = [chance.uniform(-1e6, 1e6) for _ in range(3)]
        self.candidates = [Candidate(str(who), TIMING) for who in range(3)]
        self.flying: list[Callable[[], None]] = []  # what is on its way, in no order
        self.tenures = 0
        self.trace: list[str] = []

    def local(self, who: int) -> float:
        return self.time + self.offsets[who]

    def step(self) -> None:
        acts = (
            self.pass_time,
            self.pass_time,
            self.look,
            self.look,
            self.look,
            self.claim,
            self.claim,
            self.land,
            self.land,
            self.restart,
        )
        act = self.chance.choice(acts)
        who = self.chance.randrange(3)
        act(who)
        self.trace.append(f"{self.time:.1f} {act.__name__} {who}")

    def pass_time(self, _: int) -> None:
        self.time += self.chance.choice(self.PAUSES)

    def sooner_or_later(self, what: Callable[[], None]) -> None:
        if self.chance.random() < 0.7:
            self.pass_time(0)
            what()
        else:
            self.flying.append(what)

    def land(self, _: int) -> None:
        if self.flying:
            self.flying.pop(self.chance.randrange(len(self.flying)))()

    def look(self, who: int) -> None:
        found, asked = self.live, self.candidates[who].identity
        self.sooner_or_later(lambda: self.answer(who, asked, lambda mine: mine.see(found, now=self.local(who))))

    def claim(self, who: int) -> None:
        began, mine = self.local(who), self.candidates[who]
        wish = mine.wish(began)
        if isinstance(wish, AcquireLease):
            self.sooner_or_later(lambda: self.commit(who, wish, began, mine.identity))

    def commit(self, who: int, claim: AcquireLease, began: float, identity: str) -> None:
        if (claim.onto and claim.onto.version) != (self.live and self.live.version):
            return
        self.version += 1
        won = Record(str(self.version), "u", holder=identity, duration=TIMING.duration, transitions=claim.transitions)
        self.live = won
        if self.chance.random() < 0.9:
            self.sooner_or_later(
                lambda: self.answer(who, identity, lambda mine: mine.won(won, began=began, now=self.local(who)))
            )

    def answer(self, who: int, identity: str, change: Callable[[Candidate], Candidate]) -> None:
        """An answer reaches the process that asked, if it still runs."""
        mine = self.candidates[who]
        if mine.identity == identity:
            self.candidates[who] = change(mine)
            self.tenures += mine.deadline is None and self.candidates[who].leads(self.local(who))

    def restart(self, who: int) -> None:
        if self.chance.random() < 0.2:
            self.candidates[who] = Candidate(f"{who}'" + self.candidates[who].identity, TIMING)

    def leaders(self) -> list[int]:
        return [who for who in range(3) if self.candidates[who].leads(self.local(who))]


@pytest.mark.parametrize("seed", range(8))
def test_never_two_lead_whatever_is_late_or_lost(seed: int) -> None:
    tenures = 0
    for walk in range(250):
        election = Election(random.Random(f"{seed}/{walk}"))
        for _ in range(80):
            election.step()
            assert len(election.leaders()) <= 1, "\n".join(election.trace)
        tenures += election.tenures
    assert tenures > 200, "the walks must get somewhere"
