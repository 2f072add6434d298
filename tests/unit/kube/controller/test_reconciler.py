"""What the base of a controller does for a reconciler: caches, forgetting, the log of outcomes, and the pace."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from prometheus_client import generate_latest

from tests.unit.kube.cache.reader import HANG, THINGS, ScriptedReader, Watch, added, deleted, initial_end, modified, thing
from tests.unit.kube.virtual_time import VirtualClock, in_virtual_time
from ullage.errors import Retryable
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import WatchEvent
from ullage.kube.controller.controller import Controller, Requeue, Source, own, run
from ullage.kube.controller.outcome import LONGEST_SENTENCE, Outcome, listed
from ullage.kube.controller.pace import Pace
from ullage.kube.controller.reconciler import Memory, Reconciler, ReconcilerWiring, Watched
from ullage.kube.kinds import Kind, Object
from ullage.kube.metrics import Metrics
from ullage.kube.slices import Part, Wiring

A = Key("n", "a")
OTHERS = Kind("test.ullage.io", "v1", "Other", "others", Object)
DID = Outcome("thing a", ("painted",))
SAW = Outcome("thing a")


# --- outcomes ---


@pytest.mark.parametrize(
    ("outcome", "sentence"),
    [
        pytest.param(SAW, "thing a: nothing to do", id="nothing was done"),
        pytest.param(DID, "thing a: painted", id="one thing was done"),
        pytest.param(Outcome("thing a", ("painted", "dried")), "thing a: painted; dried", id="two things were done"),
    ],
)
def test_an_outcome_is_a_sentence(outcome: Outcome, sentence: str) -> None:
    assert outcome.sentence == sentence
    assert outcome.acted == bool(outcome.done)


def test_a_sentence_is_cut_off() -> None:
    exact = Outcome("a", ("x" * (LONGEST_SENTENCE - 3),)).sentence
    assert (len(exact), exact[-1]) == (LONGEST_SENTENCE, "x")
    longer = Outcome("a", ("x" * (LONGEST_SENTENCE - 2),)).sentence
    assert (len(longer), longer[-2:]) == (LONGEST_SENTENCE, "x…")


@pytest.mark.parametrize(
    ("count", "text"),
    [
        pytest.param(0, "none", id="nothing"),
        pytest.param(2, "0, 1", id="all of a few"),
        pytest.param(5, "0, 1, 2, 3, 4", id="exactly five"),
        pytest.param(7, "0, 1, 2, 3, 4 and 2 more", id="the rest is counted"),
    ],
)
def test_a_list_names_five(count: int, text: str) -> None:
    assert listed(map(str, range(count))) == text


# --- runs in virtual time ---


class Scene:
    """A controller of things whose reconcile follows a script, then finds nothing to do. Each event comes 0.1 s after the one
    before."""

    def __init__(
        self, *script: Outcome | Requeue | Exception | None, pace: float = 0.0, later: Iterable[WatchEvent[Any]] = ()
    ) -> None:
        events = [added(thing("a", 1)), initial_end(1), *later]
        self.cache: Cache[Object] = Cache(ScriptedReader([Watch(events, HANG, pause=0.1)]), THINGS, clock=VirtualClock())
        self.script = list(script)
        self.runs: list[float] = []  # when each began
        self.metrics = Metrics()
        self.shown = ""  # the metrics, in the end
        self.controller = Controller(
            "things", [own(self.cache)], self._reconcile, clock=VirtualClock(), pace=pace, metrics=self.metrics
        )

    async def _reconcile(self, key: Key) -> Outcome | Requeue | None:
        self.runs.append(asyncio.get_running_loop().time())
        step = self.script.pop(0) if self.script else SAW
        if isinstance(step, Exception):
            raise step
        return step

    def seconds(self) -> list[float]:
        """When each run began, from the first one on."""
        return [round(moment - self.runs[0], 6) for moment in self.runs]


def simulated(make: Callable[[], Scene]) -> Scene:
    """Lets the scene run for a minute."""

    async def main() -> Scene:
        scene, stop = make(), asyncio.Event()
        task = asyncio.create_task(run([scene.cache], [scene.controller], stop=stop))
        await asyncio.sleep(60.0)
        scene.shown = generate_latest(scene.metrics.registry).decode()
        stop.set()
        await task
        return scene

    return in_virtual_time(main())


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, object, object]]:
    """Level, message, controller and key of what was said of keys."""
    told = [(one, vars(one)) for one in caplog.records if "key" in vars(one)]
    return [(one.levelname, one.getMessage(), more["controller"], more["key"]) for one, more in told]


@pytest.mark.parametrize(
    ("step", "said"),
    [
        pytest.param(DID, [("INFO", "thing a: painted", "things", "n/a")], id="what was done is told"),
        pytest.param(SAW, [("DEBUG", "thing a: nothing to do", "things", "n/a")], id="a look is for debugging"),
        pytest.param(None, [], id="no outcome says nothing"),
        pytest.param(Requeue(500.0), [], id="nor does a Requeue"),
        pytest.param(
            Outcome("thing 100%s", ("%d of them",)),
            [("INFO", "thing 100%s: %d of them", "things", "n/a")],
            id="taken literally",
        ),
    ],
)
def test_the_sentence_is_the_log_line(
    step: Outcome | Requeue | None, said: list[object], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="ullage.kube.controller.controller")
    simulated(lambda: Scene(step))
    assert lines(caplog) == said


def test_a_sentence_that_is_not_logged_is_not_built(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    built: list[Outcome] = []

    def sentence(outcome: Outcome) -> str:
        built.append(outcome)
        return "built"

    monkeypatch.setattr(Outcome, "sentence", property(sentence))
    caplog.set_level(logging.INFO, logger="ullage.kube.controller.controller")
    simulated(lambda: Scene(SAW))
    assert built == []
    simulated(lambda: Scene(DID))
    assert built == [DID]


def test_an_outcome_may_ask_for_another_run() -> None:
    scene = simulated(lambda: Scene(Outcome("thing a", after=5.0), SAW))
    assert scene.seconds() == [0.0, 5.0]


@pytest.mark.parametrize(
    ("outcome", "result"),
    [
        pytest.param(DID, "done", id="at rest"),
        pytest.param(Outcome("thing a", ("painted",), after=500.0), "requeued", id="with another run"),
    ],
)
def test_an_outcome_counts_like_what_was_returned_before(outcome: Outcome, result: str) -> None:
    scene = simulated(lambda: Scene(outcome))
    assert f'ullage_reconcile_total{{controller="things",result="{result}"}} 1.0' in scene.shown


# --- the pace ---


CHANGES = [modified(thing("a", version)) for version in range(2, 12)]  # in one second


def test_after_a_run_that_did_something_a_key_waits_for_the_pace() -> None:
    scene = simulated(lambda: Scene(DID, DID, pace=2.0, later=CHANGES))
    assert scene.seconds() == [0.0, 2.0], "the changes of that time are looked at once, when it is over"


def test_without_a_pace_every_change_is_looked_at() -> None:
    scene = simulated(lambda: Scene(*[DID] * 20, later=CHANGES))
    assert len(scene.runs) == 11


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(SAW, id="nothing was done"),
        pytest.param(None, id="nothing was said"),
        pytest.param(Outcome("thing a", ("painted",), paced=False), id="the reconciler says so"),
    ],
)
def test_a_run_that_does_not_count_for_the_pace_delays_nothing(step: Outcome | None) -> None:
    scene = simulated(lambda: Scene(*[step] * 20, pace=2.0, later=CHANGES))
    assert len(scene.runs) == 11


def test_a_failure_is_tried_again_whatever_the_pace() -> None:
    scene = simulated(lambda: Scene(Retryable("busy"), DID, pace=100.0))
    assert len(scene.runs) == 2


def test_an_object_that_was_made_anew_does_not_wait_for_the_pace_of_the_one_before() -> None:
    later = [deleted(thing("a", 2)), added(thing("a", 3, uid="another"))]
    scene = simulated(lambda: Scene(DID, pace=30.0, later=later))
    assert len(scene.runs) == 3
    assert scene.runs[-1] - scene.runs[0] < 1.0


def test_keys_whose_time_is_over_are_not_remembered() -> None:
    async def main() -> None:
        pace: Pace[int] = Pace(1.0, clock=VirtualClock())
        for key in range(100):
            pace.acted(key)
            assert pace.wait(key) == pytest.approx(1.0)
            await asyncio.sleep(0.1)
        assert len(pace) <= 11
        assert pace.wait(0) == 0.0
        assert pace.wait(99) == pytest.approx(0.9)
        pace.acted(95)
        assert pace.wait(95) == pytest.approx(1.0), "each action counts anew"
        pace.forget(95)
        assert pace.wait(95) == 0.0
        assert Pace[int](0.0, clock=VirtualClock()).wait(1) == 0.0

    in_virtual_time(main())


# --- memory ---


async def test_a_memory_forgets_an_object_that_goes() -> None:
    events = [added(thing("a", 1)), added(thing("b", 2)), initial_end(3)]
    later = [modified(thing("a", 4)), deleted(thing("b", 5)), added(thing("b", 6, uid="another"))]
    cache: Cache[Object] = Cache(ScriptedReader([Watch([*events, *later], HANG)]), THINGS)
    memory: Memory[str] = Memory(forget_with=(cache,))
    lasting: Memory[str] = Memory(forget_with=())
    for one in (memory, lasting):
        one["uid-a"], one["uid-b"], one["another"] = "kept", "gone", "of the next one"
    reading = asyncio.create_task(cache.run())
    try:
        await asyncio.wait_for(cache.reached(6), 10)
    finally:
        reading.cancel()
        await asyncio.wait([reading])
    assert memory == {"uid-a": "kept", "another": "of the next one"}
    assert lasting == {"uid-a": "kept", "uid-b": "gone", "another": "of the next one"}, "it is to outlive its objects"


# --- the declaration ---


class Painter(Reconciler[Key]):
    name = "painter"
    workers = 2
    pace = 3.0
    things = Watched(THINGS)
    again = Watched(THINGS, namespace="n")
    others = Watched(OTHERS, namespace="elsewhere")

    def __init__(self, wiring: ReconcilerWiring) -> None:
        super().__init__(wiring)
        self.painted: Memory[str] = Memory(forget_with=(self.things,))

    def sources(self) -> Iterable[Source[Any, Key]]:
        yield own(self.things)

    async def reconcile(self, key: Key) -> Outcome:
        found = self.things.get(key)
        if found is None:
            return Outcome(f"thing {key}")
        self.painted[found.metadata.uid] = "red"
        return Outcome(f"thing {key}", ("painted",))


def made_by(wiring: Wiring, *watches: Kind[Any]) -> Painter:
    [painter] = wiring.made(Part(make=lambda given: [Painter(given)], watches=watches))
    return painter


def test_caches_and_rights_follow_from_what_is_watched() -> None:
    wiring = Wiring(ScriptedReader())  # type: ignore[arg-type]
    assert Painter.watches() == (THINGS, OTHERS)
    painter = made_by(wiring, *Painter.watches())
    assert isinstance(Painter.things, Watched)
    assert [painter.things, painter.again, painter.others] == wiring.caches
    assert made_by(wiring, *Painter.watches()).things is painter.things, "a cache is shared"
    assert [one.whole for one in wiring.caches] == [True, False, False]


def test_a_kind_that_the_slice_does_not_declare_is_refused() -> None:
    with pytest.raises(LookupError, match="others"):
        made_by(Wiring(ScriptedReader()), THINGS)  # type: ignore[arg-type]


def test_the_controller_is_as_declared(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        events = [added(thing("a", 1)), initial_end(1), deleted(thing("a", 2))]
        reader = ScriptedReader([Watch(events, HANG, pause=1.0)])
        wiring = Wiring(reader, clock=VirtualClock())  # type: ignore[arg-type]
        painter = made_by(wiring, THINGS, OTHERS)
        controller, stop = painter.controller(), asyncio.Event()
        assert controller.name == "painter"
        task = asyncio.create_task(run([painter.things], [controller], stop=stop))
        await asyncio.sleep(2.5)
        assert painter.painted == {"uid-a": "red"}
        assert sum(one.get_name().startswith("painter/") for one in asyncio.all_tasks()) == 2
        await asyncio.sleep(1.0)
        assert painter.painted == {}
        stop.set()
        await task
        shown = generate_latest(wiring.metrics.registry).decode()
        assert 'ullage_reconcile_total{controller="painter",result="done"} 2.0' in shown

    caplog.set_level(logging.DEBUG, logger="ullage.kube.controller.controller")
    in_virtual_time(main())
    assert [(level, said) for level, said, *_ in lines(caplog)] == [
        ("INFO", "thing n/a: painted"),
        ("DEBUG", "thing n/a: nothing to do"),
    ]
