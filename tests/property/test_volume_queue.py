"""The queues of volumes against a model that looks at everybody: whatever changes, the head is who goes first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ullage.kube.kinds import Meta
from ullage.snapshots.model import CREATING, Problem, Record, Ref, State
from ullage.snapshots.volume_queue import RecordKey, VolumeQueues, position_of, queue_of

STATES = {"waiting": State(), "failed": State(problem=Problem("Broken", "")), "cut": State(handle="h-1")}


def record(name: str, volume: str, state: str, *, begun: bool) -> Record:
    meta = Meta(name=name, annotations={CREATING: "true"} if begun else {})
    return Record(meta=meta, ref=Ref("team", name), driver="csi.example.com", volume=volume, state=STATES[state])


RECORDS = st.builds(
    record, st.sampled_from("abcde"), st.sampled_from(["v-1", "v-2"]), st.sampled_from(sorted(STATES)), begun=st.booleans()
)
CHANGES = st.lists(st.one_of(RECORDS, st.sampled_from("abcde")), max_size=400)  # a name alone: that record goes


@given(CHANGES)
def test_the_head_is_the_smallest_of_all(changes: list[Record | str]) -> None:
    queues, there = VolumeQueues(), dict[str, Record]()
    for change in changes:
        name = change if isinstance(change, str) else change.meta.name
        old = there.pop(name, None)
        if isinstance(change, Record):
            there[name] = change
        queues.update("ga", old, there.get(name))
        for queue in ("csi.example.com v-1", "csi.example.com v-2"):
            found = [(position_of(one), RecordKey("ga", one.meta.name)) for one in there.values() if queue_of(one) == queue]
            assert queues.first_key(queue) == (min(found)[1] if found else None)
            assert queues.first(queue) == (min(found)[0] if found else None)


def test_a_line_does_not_grow_with_the_failures_of_one() -> None:
    queues = VolumeQueues()
    queues.update("ga", None, record("a", "v-1", "waiting", begun=False))
    old = record("b", "v-1", "waiting", begun=False)
    queues.update("ga", None, old)
    for number in range(10_000):
        new = record("b", "v-1", "failed" if number % 2 else "waiting", begun=False)
        queues.update("ga", old, new)
        old = new
    assert queues.first_key("csi.example.com v-1") == RecordKey("ga", "a")
    assert len(queues._queues["csi.example.com v-1"]._heap) < 100
