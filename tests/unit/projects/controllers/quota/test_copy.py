"""Copies on the seeds: what they are to be, and that they go before the quota does."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import pytest

from tests.unit.projects.builders import BOTH, details, quota, usage
from ullage.kube.kinds import Meta, OwnerReference
from ullage.kube.objects import Condition, Conditions
from ullage.projects.api.amounts import ResourceDetails
from ullage.projects.api.quotas import ResourceQuota, ResourceQuotaStatus, SeedUsage, UsageForPeople
from ullage.projects.controllers.quota_copy_rules import (
    Removal,
    SeedCopy,
    is_copy,
    may_copy,
    must_go,
    new_copy,
    object_patch,
    removal,
    status_patch,
)
from ullage.projects.names import ESCROW, FINALIZER

OWNER = OwnerReference(api_version="kubermatic.k8c.io/v1", kind="Project", name="abc", uid="uid-of-abc")
LABELS = {"subject-name": "abc", "subject-kind": "project"}
HELD = {"finalizers": (FINALIZER,)}


def master(limits: ResourceDetails | None = None, **more: Any) -> ResourceQuota:
    return quota(limits=limits, **{"labels": LABELS, **HELD, "owner_references": (OWNER,), **more})


def copy(limits: ResourceDetails | None = None, *, seed: str = "a", **more: Any) -> ResourceQuota:
    return quota(limits=limits, **{"labels": LABELS, "uid": f"on-{seed}", **more})


def test_a_new_copy_has_labels_and_spec_and_nothing_of_the_master_s_own() -> None:
    status = ResourceQuotaStatus(global_usage=usage("3"), local_usage=usage("1"))
    annotations = {"ullage.io/max-clusters": "3", "kubectl.kubernetes.io/last-applied-configuration": "{}"}
    whole = master(details(cpu=5), annotations=annotations, status=status)
    made = new_copy(whole)
    annotated = {"ullage.io/copy-of": whole.metadata.uid, "ullage.io/max-clusters": "3"}
    assert made.metadata == Meta(name="project-abc", labels=LABELS, annotations=annotated)
    assert (made.spec, made.status) == (whole.spec, ResourceQuotaStatus())


@pytest.mark.parametrize(
    ("whole", "there", "patch"),
    [
        pytest.param(master(details(cpu=5)), copy(details(cpu=5)), None, id="alike: nothing is written"),
        pytest.param(master(details(cpu=5)), copy(details(cpu="5000m")), None, id="5000m is 5"),
        pytest.param(
            master(details(cpu=5)),
            copy(details(cpu="9", memory="1Gi")),
            {"spec": {"quota": {"cpu": 5, "memory": None}}},
            id="other limits, and one that is gone",
        ),
        pytest.param(
            master(details(cpu=0)), copy(details()), {"spec": {"quota": {"cpu": 0}}}, id="zero is carried: it is not absent"
        ),
        pytest.param(
            master(), copy(labels={**LABELS, **BOTH}), {"metadata": {"labels": dict.fromkeys(BOTH)}}, id="custom now: marks go"
        ),
        pytest.param(
            master(labels={**LABELS, **BOTH, "team": "x"}),
            copy(labels={**LABELS, "seed-only": "y"}),
            {"metadata": {"labels": {**BOTH, "team": "x"}}},
            id="the master's labels come, those of others stay",
        ),
        pytest.param(
            master(annotations={"ullage.io/max-clusters": "3"}),
            copy(annotations={"mine": "x"}),
            {"metadata": {"annotations": {"ullage.io/max-clusters": "3"}}},
            id="how many clusters there may be comes along",
        ),
        pytest.param(
            master(),
            copy(annotations={"ullage.io/max-clusters": "3"}),
            {"metadata": {"annotations": None}},
            id="and goes",
        ),
        pytest.param(master(details(cpu=5)), copy(deleting=True), None, id="a copy that is going is made anew later"),
        pytest.param(master(details(cpu=5)), quota("other", name="project-abc"), None, id="one of another subject is not bent"),
        pytest.param(
            master(details(cpu=5), uid="same"), quota(limits=details(cpu=9), uid="same"), None, id="the master is no copy"
        ),
    ],
)
def test_what_makes_a_copy_like_the_master(whole: ResourceQuota, there: ResourceQuota, patch: dict[str, Any] | None) -> None:
    assert object_patch(whole, there) == patch


def test_something_of_another_subject_under_the_name_has_to_go_first() -> None:
    assert must_go(master(), quota("other", name="project-abc", uid="on-a"))
    assert not must_go(master(), copy())


@pytest.mark.parametrize(
    ("said", "there", "patch"),
    [
        pytest.param(
            ResourceQuotaStatus(global_usage=usage("3"), local_usage=usage("9"), shown=UsageForPeople(cpu="3/5")),
            ResourceQuotaStatus(local_usage=usage("1")),
            {"status": {"globalUsage": {"cpu": "3", "memory": "0", "storage": "0"}, "shown": {"cpu": "3/5"}}},
            id="globalUsage is copied, localUsage never",
        ),
        pytest.param(
            ResourceQuotaStatus(global_usage=usage("3")),
            ResourceQuotaStatus(global_usage=details(cpu="3000m", memory=0, storage=0), local_usage=usage("1")),
            None,
            id="the same amount is not written again",
        ),
        pytest.param(
            ResourceQuotaStatus(local_usage=usage("9")),
            ResourceQuotaStatus(global_usage=usage("2")),
            None,
            id="a master that has not counted takes nothing back",
        ),
    ],
)
def test_what_a_copy_is_told_about_usage(
    said: ResourceQuotaStatus, there: ResourceQuotaStatus, patch: dict[str, Any] | None
) -> None:
    assert status_patch(master(status=said), copy(status=there)) == patch
    same = msgspec.structs.replace(master(status=said), status=there)
    assert status_patch(master(status=said), same) is None, "a master that is a seed is not written as a copy"


def fresh(status: Literal["True", "False"], message: str, *, generation: int = 1) -> Condition:
    reason = "Fresh" if status == "True" else "SeedUnreachable"
    return Condition(
        type="UsageFresh",
        status=status,
        reason=reason,
        message=message,
        observed_generation=generation,
        last_transition_time="2026-05-01T11:00:00Z",
    )


LOCAL = Condition(type="LocalUsageFresh", status="True", reason="Fresh", message="all clusters are counted")
AWAY = SeedUsage(name="b", usage=usage("1"), stale_since="2026-05-01T10:00:00Z")


@pytest.mark.parametrize(
    ("master_says", "seeds", "there", "then"),
    [
        pytest.param(
            fresh("True", "counted on 2 seeds", generation=7),
            (),
            (LOCAL,),
            (LOCAL, fresh("True", "counted on 2 seeds")),
            id="of now: what the seed itself says stays",
        ),
        pytest.param(
            fresh("False", "seed b: out of reach for 3 hours (since 2026-05-01T10:00:00Z); its last figures count"),
            (SeedUsage(name="a", usage=usage("2")), AWAY),
            (fresh("True", "counted on 2 seeds"), LOCAL),
            (fresh("False", "out of reach: b since 2026-05-01T10:00:00Z; the last figures count"), LOCAL),
            id="out of reach: since when, and no age that would be written again and again",
        ),
        pytest.param(
            fresh("False", "seed b: out of reach for 6 hours (since 2026-05-01T10:00:00Z); its last figures count"),
            (AWAY,),
            (fresh("False", "out of reach: b since 2026-05-01T10:00:00Z; the last figures count"),),
            None,
            id="older by now: nothing is written",
        ),
    ],
)
def test_a_copy_says_whether_the_usage_of_all_seeds_is_of_now(
    master_says: Condition, seeds: tuple[SeedUsage, ...], there: Conditions, then: Conditions | None
) -> None:
    said = ResourceQuotaStatus(global_usage=usage("3"), seeds=seeds, conditions=(master_says,))
    found = copy(status=ResourceQuotaStatus(global_usage=usage("3"), conditions=there))
    patch = status_patch(master(status=said), found)
    assert patch == (None if then is None else {"status": {"conditions": msgspec.to_builtins(then)}})


@pytest.mark.parametrize(
    ("given", "may"),
    [
        pytest.param(master(), True, id="held"),
        pytest.param(master(finalizers=()), False, id="not held yet: it could go and leave copies behind"),
        pytest.param(master(deleting=True), False, id="going"),
    ],
)
def test_only_what_is_held_is_copied(given: ResourceQuota, *, may: bool) -> None:
    assert may_copy(given) is may


# --- taken away ------------------------------------------------------------------------------------------------------


def on(seed: str, found: ResourceQuota | None) -> SeedCopy:
    return SeedCopy(seed, reachable=True, copy=found)


def away(seed: str) -> SeedCopy:
    return SeedCopy(seed, reachable=False)


GOING = master(deleting=True, finalizers=("other", FINALIZER))


@pytest.mark.parametrize(
    ("copies", "deleted", "done", "waiting"),
    [
        pytest.param([], [], True, "", id="no seed: it may go"),
        pytest.param([on("a", None), on("b", None)], [], True, "", id="no copy any more: it may go"),
        pytest.param(
            [on("b", copy(seed="b")), on("a", copy(seed="a")), on("c", None)],
            ["a", "b"],
            False,
            "there is still a copy on a, b",
            id="copies go first, all at once",
        ),
        pytest.param(
            [on("a", copy(deleting=True))], [], False, "there is still a copy on a", id="one that is going is waited for"
        ),
        pytest.param(
            [on("a", copy()), away("b")],
            ["a"],
            False,
            "there is still a copy on a; out of reach: b; it waits until each is back. Where a seed does"
            " not come back, delete its Seed object or run `ullage projects drain-seed NAME`",
            id="a seed that is away holds up itself only",
        ),
        pytest.param(
            [away("b"), on("a", None)],
            [],
            False,
            "out of reach: b; it waits until each is back. Where a seed does"
            " not come back, delete its Seed object or run `ullage projects drain-seed NAME`",
            id="nobody knows what it has",
        ),
        pytest.param([on("a", GOING)], [], True, "", id="a master that is a seed does not wait for itself"),
        pytest.param(
            [on("a", None), SeedCopy("b", reachable=False, given_up=True)],
            [],
            True,
            "",
            id="a seed that a person has given up is not waited for",
        ),
        pytest.param(
            [SeedCopy("b", reachable=True, copy=copy(), given_up=True)],
            ["b"],
            False,
            "there is still a copy on b",
            id="a seed that was given up and is there after all is waited for",
        ),
        pytest.param(
            [away(f"s{number}") for number in range(7)],
            [],
            False,
            "out of reach: s0, s1, s2, s3, s4 and 2 more; it waits until each is back. Where a seed does"
            " not come back, delete its Seed object or run `ullage projects drain-seed NAME`",
            id="many seeds",
        ),
    ],
)
def test_copies_go_first_and_then_the_finalizer(
    copies: list[SeedCopy], deleted: list[str], *, done: bool, waiting: str
) -> None:
    found = removal(GOING, copies)
    assert ([seed for seed, _ in found.delete], found.waiting) == (deleted, waiting)
    assert (found.metadata is not None) is done
    if found.metadata is not None:
        assert found.metadata.finalizers == ("other",)


def test_where_another_quota_takes_its_place_the_copies_stay_and_nobody_waits_for_a_seed_once_all_were_told() -> None:
    after = quota(limits=details(cpu=4), name="mine")
    seen = [on("a", copy()), SeedCopy("b", reachable=False)]
    told = removal(master(deleting=True, annotations={ESCROW: "{}"}), seen, after)
    assert told.metadata is None
    assert told.waiting == (
        "the quota mine is in force in its place: cpu 4 cores, and the seeds are told so; out of reach: b; it waits"
        " until each is back. Where a seed does not come back, delete its Seed object or run `ullage projects drain-seed NAME`"
    )
    found = removal(GOING, seen, after)
    assert (found.delete, found.waiting) == ((), "")
    assert found.metadata is not None


@pytest.mark.parametrize(
    "given", [master(), master(deleting=True, finalizers=("other",))], ids=["not deleted", "let go already"]
)
def test_what_is_not_ours_to_take_away_is_left_alone(given: ResourceQuota) -> None:
    assert removal(given, [on("a", copy())]) == Removal()


def test_a_deletion_that_is_cut_at_any_step_is_finished_by_whoever_comes_next() -> None:
    """No step lets the quota go while a seed that can be asked has a copy, whatever was done before it."""
    there: dict[str, ResourceQuota | None] = {seed: copy(seed=seed) for seed in "abc"}
    for _ in range(8):
        found = removal(GOING, [on(seed, one) for seed, one in there.items()])
        if found.metadata is not None:
            break
        assert any(there.values())
        if found.delete:  # only the first one is carried out, then the process dies
            seed, one = found.delete[0]
            assert is_copy(one, GOING)
            there[seed] = None
    assert there == dict.fromkeys("abc")
    assert found.metadata is not None
