"""Quotas of projects: what holds whatever administrators, seeds and other controllers do, and in whatever order."""

from __future__ import annotations

from datetime import timedelta

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.projects.builders import BOTH, NOW, details, project, quota, usage
from ullage.kube.objects import is_deleting
from ullage.ledger.amounts import Amounts
from ullage.projects.api.amounts import ResourceDetails
from ullage.projects.api.quotas import ResourceQuota, ResourceQuotaStatus
from ullage.projects.controllers.quota_copy_rules import SeedCopy, new_copy, object_patch, removal, status_patch
from ullage.projects.controllers.quota_default_rules import CreateDefault, Default, RemoveDefault, UpdateDefault, steps
from ullage.projects.controllers.quota_status_rules import SeedReport, totals, with_totals
from ullage.projects.names import FINALIZER, is_default
from ullage.projects.quota import amounts_of, faults, limits_of, same_limits, usage_of

AMOUNTS = st.integers(0, 10**6).map(str) | st.sampled_from(["0", "1000m", "1", "1Gi", "1024Mi", "1G", "1e3", ".5", "1n"])
WRITTEN = AMOUNTS | st.integers(0, 10**6)
ANY_TEXT = AMOUNTS | st.text(max_size=70) | st.integers() | st.sampled_from(["-1", "-1n", "1 Gi", "1Zi", "", "٣", "9" * 65])
LIMITS = st.fixed_dictionaries({}, optional=dict.fromkeys(("cpu", "memory", "storage"), WRITTEN)).map(
    lambda one: details(**one)
)
USED = st.builds(usage, AMOUNTS, AMOUNTS, AMOUNTS)
SEEDS = st.sampled_from("abc")


# --- amounts ---------------------------------------------------------------------------------------------------------


@given(ANY_TEXT, ANY_TEXT)
def test_whatever_is_written_is_a_limit_and_a_faulty_one_allows_nothing(cpu: str | int, memory: str | int) -> None:
    given_limits = details(cpu=cpu, memory=memory)
    wrong = {fault.field for fault in faults(quota(limits=given_limits))}
    limits = limits_of(given_limits)
    assert limits.keys() == {"cpu", "memory"}
    assert all(limit.sign >= 0 for limit in limits.values())
    assert all(limits[resource].sign == 0 for resource in limits if f"spec.quota.{resource}" in wrong)


@given(LIMITS, LIMITS, LIMITS)
def test_to_allow_the_same_is_an_equality(one: ResourceDetails, two: ResourceDetails, three: ResourceDetails) -> None:
    assert same_limits(one, one)
    assert same_limits(one, two) == same_limits(two, one) == (limits_of(one) == limits_of(two))
    if same_limits(one, two) and same_limits(two, three):
        assert same_limits(one, three)


@given(st.lists(USED, max_size=8), st.randoms(use_true_random=False))
def test_a_sum_does_not_depend_on_the_order(parts: list[ResourceDetails], chance: object) -> None:
    amounts = [amounts_of(part, field="x") for part in parts]
    found = Amounts.total(amounts)
    chance.shuffle(amounts)  # type: ignore[attr-defined]
    assert Amounts.total(amounts) == found
    assert amounts_of(usage_of(found), field="x") == found


# --- default quotas --------------------------------------------------------------------------------------------------

NAMES = ["p", "q"]  # few, so that quotas meet
MARKS = st.sampled_from([{}, BOTH, {"default": "true"}, {"kkp-default-resource-quota": "true"}])
A_QUOTA = st.tuples(st.sampled_from(NAMES), LIMITS, MARKS, st.booleans(), st.sampled_from(["", "mine"]))
WORLD = st.lists(A_QUOTA, min_size=1, max_size=4, unique_by=lambda one: (one[0], one[4]))


@given(st.none() | LIMITS, WORLD, st.lists(st.booleans(), min_size=2, max_size=2))
def test_defaults_come_to_rest_and_custom_quotas_are_never_touched(
    limits: ResourceDetails | None, there: list[tuple[str, ResourceDetails, dict[str, str], bool, str]], going: list[bool]
) -> None:
    """What is being deleted goes meanwhile. Two rounds do: one takes away and changes, the next makes what is missing."""
    projects = [project(name, deleting=gone) for name, gone in zip(NAMES, going, strict=True)]
    made_before = [
        quota(of, allowed, name=f"{prefix}{of}" if prefix else "", labels=marks, deleting=deleting)
        for of, allowed, marks, deleting, prefix in there
    ]
    world = {one.metadata.name: one for one in made_before}
    custom = {name: one for name, one in world.items() if not is_default(one.metadata) and not is_deleting(one.metadata)}
    for _ in range(3):
        found = list(steps(Default(limits), projects, world.values()))
        for step in found:
            match step:
                case CreateDefault(made):
                    assert made.metadata.name not in world, "no create that can only fail"
                    world[made.metadata.name] = made
                case UpdateDefault(old, spec):
                    world[old.metadata.name] = msgspec.structs.replace(old, spec=spec)
                case RemoveDefault(old):
                    del world[old.metadata.name]
        world = {name: one for name, one in world.items() if not is_deleting(one.metadata)}
    assert list(steps(Default(limits), projects, world.values())) == []
    assert {name: one for name, one in world.items() if name in custom} == custom
    for one in projects:
        own = [found_quota for found_quota in world.values() if found_quota.spec.subject.name == one.metadata.name]
        if is_deleting(one.metadata):
            continue
        ours = [found_quota for found_quota in own if is_default(found_quota.metadata)]
        if limits is None or len(own) > len(ours):
            assert ours == []
        else:
            assert [same_limits(found_quota.spec.quota, limits) for found_quota in own] == [True]


# --- totals ----------------------------------------------------------------------------------------------------------

EVENT = st.tuples(SEEDS, st.sampled_from(["says", "says", "away", "uncopied", "uncounted", "negative"]), USED)


@given(st.lists(EVENT, max_size=12))
def test_the_total_is_never_less_than_what_the_seeds_said_last(events: list[tuple[str, str, ResourceDetails]]) -> None:
    about, last, reports = quota(), dict[str, Amounts](), dict[str, SeedReport]()
    for number, (seed, what, used) in enumerate(events):
        local = {"says": used, "negative": usage("-1")}.get(what, details())
        copy = quota(uid=f"on-{seed}", status=ResourceQuotaStatus(local_usage=local))
        reports[seed] = SeedReport(seed, reachable=what != "away", copy=None if what in ("away", "uncopied") else copy)
        if what == "says":
            last[seed] = amounts_of(used, field="x")
        found = totals(about, reports.values(), now=NOW + timedelta(minutes=number))
        about = msgspec.structs.replace(about, status=with_totals(about.status, found))
        said = Amounts.total(last.values())
        assert (found.usage is None) == (not last)
        if found.usage is not None:
            assert said <= found.usage
            if last.keys() == reports.keys():
                assert found.usage == said, "exact where every seed has said something"
        assert len(found.stale) == sum(not report.reachable for report in reports.values())


# --- copies ----------------------------------------------------------------------------------------------------------

LABELS = st.dictionaries(
    st.sampled_from(["default", "kkp-default-resource-quota", "team", "subject-name"]), st.sampled_from("xy")
)
NOTES = st.dictionaries(st.sampled_from(["ullage.io/max-clusters", "other"]), st.sampled_from(["1", "2"]))


def patched(there: ResourceQuota, patch: object) -> ResourceQuota:
    def merge(value: object, change: object) -> object:
        if not isinstance(change, dict):
            return change
        found = dict(value) if isinstance(value, dict) else {}
        for key, inner in change.items():
            if inner is None:
                found.pop(key, None)
            else:
                found[key] = merge(found.get(key), inner)
        return found

    return msgspec.convert(merge(msgspec.to_builtins(there), patch), type=ResourceQuota)


@given(st.lists(st.tuples(LIMITS, LABELS, NOTES), min_size=1, max_size=6), LIMITS, LABELS, NOTES, USED, USED)
def test_however_often_a_quota_changes_one_patch_brings_a_copy_to_the_last_word(
    changes: list[tuple[ResourceDetails, dict[str, str], dict[str, str]]],
    limits: ResourceDetails,
    labels: dict[str, str],
    notes: dict[str, str],
    local: ResourceDetails,
    everywhere: ResourceDetails,
) -> None:
    there = quota(limits=limits, uid="on-a", labels=labels, annotations=notes, status=ResourceQuotaStatus(local_usage=local))
    last, marks, annotations = changes[-1]
    status = ResourceQuotaStatus(global_usage=everywhere, local_usage=usage("77"))
    whole = quota(limits=last, labels=marks, annotations=annotations, status=status)
    if patch := object_patch(whole, there):
        assert patch.keys() <= {"metadata", "spec"}
        there = patched(there, patch)
    if told := status_patch(whole, there):
        assert "localUsage" not in told["status"]
        there = patched(there, told)
    assert object_patch(whole, there) is status_patch(whole, there) is None
    assert same_limits(there.spec.quota, last)
    assert same_limits(there.status.global_usage, everywhere)
    assert there.status.local_usage == local
    for mark in ("default", "kkp-default-resource-quota", "subject-name"):
        assert there.metadata.labels.get(mark) == marks.get(mark)
    assert there.metadata.annotations.get("ullage.io/max-clusters") == annotations.get("ullage.io/max-clusters")
    fresh = new_copy(whole)
    assert (
        object_patch(whole, msgspec.structs.replace(fresh, metadata=msgspec.structs.replace(fresh.metadata, uid="z"))) is None
    )


@given(st.lists(st.tuples(SEEDS, st.sampled_from(["away", "back", "delete", "finish"])), max_size=30))
def test_a_quota_never_goes_before_its_copies(events: list[tuple[str, str]]) -> None:
    """Seeds come and go, and each delete may be cut off before it is done."""
    going = quota(deleting=True, finalizers=(FINALIZER,))
    there: dict[str, ResourceQuota | None] = {seed: quota(uid=f"on-{seed}") for seed in "abc"}
    away: set[str] = set()
    for seed, what in [
        *events,
        *((one, "back") for one in "abc"),
        *((one, do) for one in "abc" for do in ("delete", "finish")),
    ]:
        found = removal(going, [SeedCopy(one, one not in away, None if one in away else copy) for one, copy in there.items()])
        assert (found.metadata is None) or not any(there.values())
        match what:
            case "away":
                away.add(seed)
            case "back":
                away.discard(seed)
            case "delete" if seed in dict(found.delete):
                there[seed] = quota(uid=f"on-{seed}", deleting=True)
            case "finish" if (copy := there[seed]) is not None and is_deleting(copy.metadata):
                there[seed] = None
    last = removal(going, [SeedCopy(one, reachable=True, copy=copy) for one, copy in there.items()])
    assert last.metadata is not None, "and it goes in the end"
