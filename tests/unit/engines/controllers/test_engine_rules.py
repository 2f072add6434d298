"""What a look at an engine changes: its status, and which objects are missing or too many."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.engines.builders import CREATED, GIB, snapshot, volume
from ullage.engines.api import EngineStatus, Snapshot
from ullage.engines.chain import HEAD, Entry, Limits, PollResult, PurgeProgress
from ullage.engines.controllers import engine_rules as rules
from ullage.engines.model import wanted_limits
from ullage.kube.objects import merge_patch

LIMITS = Limits(max_count=250)
MIB = 1024**2


def look(*entries: Entry, purges: dict[str, PurgeProgress] | None = None) -> PollResult:
    return PollResult({one.name: one for one in entries}, purges or {}, LIMITS)


def head(size: int, parent: str = "") -> Entry:
    return Entry(name=HEAD, parent=parent, created=CREATED, size=size)


def seen(old: EngineStatus, new: PollResult, *, size: int = GIB, since_head: float = 0.0) -> EngineStatus:
    return rules.polled_status(old, new, volume_size=size, since_head=since_head)


BEFORE = seen(EngineStatus(), look(head(0)))


@pytest.mark.parametrize(
    ("size", "grown", "since", "written"),
    [
        pytest.param(GIB, 0, 0.0, False, id="nothing grew"),
        pytest.param(GIB, 4096, 29.9, False, id="little, and lately written"),
        pytest.param(GIB, 4096, 30.0, True, id="little, and not written for 30 s"),
        pytest.param(GIB, MIB - 1, 0.0, False, id="nearly a thousandth of the volume"),
        pytest.param(GIB, MIB, 0.0, True, id="a thousandth of the volume"),
        pytest.param(1024 * GIB, 100 * MIB - 1, 0.0, False, id="nearly 100 MiB of a large volume"),
        pytest.param(1024 * GIB, 100 * MIB, 0.0, True, id="100 MiB of a large volume"),
        pytest.param(0, 1, 0.0, True, id="a volume whose size is not known"),
    ],
)
def test_head_growth(size: int, grown: int, since: float, written: bool) -> None:
    new = seen(BEFORE, look(head(grown)), size=size, since_head=since)
    assert (merge_patch(BEFORE, new) is not None) is written


@pytest.mark.parametrize(
    ("before", "after", "written"),
    [
        pytest.param(None, 8192, True, id="a snapshot below it was removed"),
        pytest.param(8192, None, True, id="it was merged away"),
        pytest.param(8192, 12288, False, id="it will hold a little more"),
        pytest.param(8192, 8192 + MIB, True, id="it will hold much more"),
    ],
)
def test_what_the_head_will_hold_after_merges_is_news_as_its_size_is(
    before: int | None, after: int | None, written: bool
) -> None:
    old, new = (look(replace(head(8192), merged=merged)) for merged in (before, after))
    status = seen(EngineStatus(), old)
    assert (merge_patch(status, seen(status, new)) is not None) is written


def test_a_head_that_moved_is_written_at_once() -> None:
    new = seen(BEFORE, look(head(0, parent="snap"), Entry(name="snap", children=frozenset({HEAD}), created=CREATED, size=1)))
    patch = merge_patch(BEFORE, new)
    assert patch == {
        "snapshots": {
            HEAD: {"parent": "snap"},
            "snap": {"name": "snap", "children": {HEAD: True}, "usercreated": True, "created": CREATED, "size": "1"},
        }
    }


def test_what_went_is_taken_out() -> None:
    old = seen(EngineStatus(), look(head(0), Entry(name="snap"), purges={"r1": PurgeProgress(purging=True, progress=50)}))
    patch = merge_patch(old, seen(old, look(head(0), purges={"r2": PurgeProgress()})))
    assert patch == {"snapshots": {"snap": None}, "purgeStatus": {"r1": None, "r2": {}}}


def test_a_look_that_failed_keeps_what_was_seen_and_the_next_clears_it() -> None:
    failed = rules.failed_status(BEFORE, "no answer")
    assert failed.snapshots == BEFORE.snapshots
    assert merge_patch(BEFORE, failed) == {"snapshotsError": "no answer"}
    assert merge_patch(failed, seen(failed, look(head(0)))) == {"snapshotsError": None}


TAKEN = snapshot(creation_time=CREATED)
SHOWN = snapshot(name="shown", create=False)
AWAITED = snapshot(name="awaited")
GOING = snapshot(name="going", create=False, going=True)


@pytest.mark.parametrize(
    ("entries", "objects", "missing", "stale"),
    [
        pytest.param(["snap", HEAD], [TAKEN], [], [], id="all is as it should be"),
        pytest.param(["a", "b", HEAD], [], ["a", "b"], [], id="entries without objects, and never the head"),
        pytest.param([HEAD], [TAKEN], [], ["snap"], id="a snapshot that was taken and is gone"),
        pytest.param([HEAD], [SHOWN], [], ["shown"], id="an object that only showed an entry"),
        pytest.param([HEAD], [AWAITED], [], [], id="a snapshot that is still to be taken"),
        pytest.param([HEAD], [GOING], [], [], id="an object that goes anyway"),
    ],
)
def test_gaps(entries: list[str], objects: list[Snapshot], missing: list[str], stale: list[str]) -> None:
    found = rules.difference(entries, objects)
    assert (list(found.missing), [one.metadata.name for one in found.stale]) == (missing, stale)


@pytest.mark.parametrize(
    ("name", "nameable"),
    [
        ("c-abc123-c4f2b5d6", True),
        ("a.b", True),
        ("a" * 253, True),
        ("a" * 254, False),
        ("Upper", False),
        ("with_underscore", False),
        ("-dash", False),
        ("new\nline", False),
        ("", False),
    ],
)
def test_names_that_objects_can_have(name: str, nameable: bool) -> None:
    assert rules.is_nameable(name) is nameable


def test_limits_that_a_volume_leaves_open_are_the_usual_ones() -> None:
    assert wanted_limits(volume()) == Limits(max_count=250, max_size=0)
    assert wanted_limits(volume(snapshot_max_count=5, snapshot_max_size="2048")) == Limits(max_count=5, max_size=2048)
