"""Quotas as they are written and deleted on the master: what is refused, what is put back, which requests are asked about."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import jsonpatch
import pytest

from tests.unit.admission.builders import review
from tests.unit.projects.builders import BOTH
from tests.unit.snapshots.memory_api import MemoryApi
from ullage.kube.cache.cache import Cache
from ullage.kube.identities import CONTROLLER, account
from ullage.kube.review import Decision, Review
from ullage.projects.api.kkp import PROJECTS, SETTINGS
from ullage.projects.api.quotas import PROJECT_QUOTAS
from ullage.projects.names import ESCROW
from ullage.projects.subjects import QuotaLookup
from ullage.projects.webhook.quota_rules import DEFAULT_STAYS
from ullage.projects.webhook.quotas import ONLY_DEFAULTS, ONLY_IF, QuotaHooks
from ullage.standalone.apiserver.schema.cel.loops import Budget
from ullage.standalone.apiserver.schema.cel.program import compile_condition

Json = dict[str, Any]
PERSON, OURS = "jane", account(CONTROLLER)
RECORD = '{"eu":{"change":1,"granted":{"cpu":"10"},"target":{"cpu":"10"}}}'
OTHER = RECORD.replace("10", "99")
SUBJECT = {"subject-name": "abc", "subject-kind": "project"}


def body(
    limits: Json | None = None,
    *,
    name: str = "project-abc",
    subject: str = "abc",
    record: str | None = None,
    labels: Mapping[str, str] | None = None,
    used: str = "",
    **meta: Any,
) -> Json:
    annotations = {} if record is None else {ESCROW: record}
    found: Json = {
        "apiVersion": PROJECT_QUOTAS.api_version,
        "kind": PROJECT_QUOTAS.kind,
        "metadata": {"name": name, "labels": dict(SUBJECT if labels is None else labels), "annotations": annotations, **meta},
        "spec": {"subject": {"name": subject, "kind": "project"}, "quota": {"cpu": "10"} if limits is None else limits},
    }
    return {**found, "status": {"globalUsage": {"cpu": used}}} if used else found


def asked(new: Json | None, old: Json | None = None, *, user: str = PERSON) -> Review:
    operation = "DELETE" if new is None else "CREATE" if old is None else "UPDATE"
    return review(
        kind={"group": PROJECT_QUOTAS.group, "version": PROJECT_QUOTAS.version, "kind": PROJECT_QUOTAS.kind},
        name="project-abc",
        namespace="",
        operation=operation,
        object=new,
        oldObject=old,
        userInfo={"username": user},
    )


async def answer(
    phase: str, request: Review, *, quotas: tuple[Json, ...] = (), default: Json | None = None, project: Json | None = None
) -> Decision:
    """What the hook says that knows these objects."""
    api = MemoryApi()
    for quota in quotas:
        api.put(PROJECT_QUOTAS, quota)
    if project is not None:
        api.put(PROJECTS, {"metadata": {"name": "abc", **project}})
    if default is not None:
        api.put(SETTINGS, {"metadata": {"name": "globalsettings"}, "spec": {"defaultQuota": {"quota": default}}})
    caches: list[Cache[Any]] = [Cache(api, kind) for kind in (PROJECT_QUOTAS, PROJECTS, SETTINGS)]
    reading = [asyncio.create_task(cache.run()) for cache in caches]
    try:
        for cache in caches:
            await cache.synced.wait()
        found = QuotaHooks(QuotaLookup(caches[0]), caches[1], caches[2])
        return await {
            "mutate": found.mutate,
            "validate": found.validate,
            "delete": found.delete,
            "setting": found.validate_setting,
        }[phase](request)
    finally:
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)


# --- refused ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("new", "old", "field"),
    [
        pytest.param(body({"cpu": "-1"}), None, "spec.quota.cpu", id="a negative amount"),
        pytest.param(body({"memory": "1e999"}), None, "spec.quota.memory", id="more than there can be"),
        pytest.param(body({"memory": "1e100"}), body(), "spec.quota.memory", id="changed to more than there can be"),
        pytest.param(body({"memory": "12 apples"}), None, "spec.quota.memory", id="no quantity"),
        pytest.param(body(subject="other"), body(), "spec.subject", id="another subject"),
        pytest.param(body(name="mine"), None, "metadata.name", id="a name that does not follow the subject"),
        pytest.param(
            body(subject="No_Id", name="project-No_Id"), None, "spec.subject.name", id="what no project can be called"
        ),
    ],
)
async def test_what_is_wrong_with_a_quota_is_refused_with_its_field(new: Json, old: Json | None, field: str) -> None:
    decided = await answer("validate", asked(new, old))
    assert (decided.allowed, decided.code) == (False, 422)
    assert [cause.field for cause in decided.causes] == [field]
    assert field in decided.message


@pytest.mark.parametrize(
    ("new", "old"),
    [
        pytest.param(body({"memory": "2Gi"}), body({"memory": "1e999"}), id="it is corrected"),
        pytest.param(body({"memory": "1e999", "cpu": "1"}), body({"memory": "1e999"}), id="something else is changed"),
        pytest.param(
            body({"memory": "1e999"}), body({"memory": "1e999"}, finalizers=["example.com/x"]), id="a finalizer is taken off"
        ),
    ],
)
async def test_what_was_stored_wrong_is_in_nobody_s_way(new: Json, old: Json) -> None:
    assert (await answer("validate", asked(new, old))).allowed


def setting_asked(new: str, old: str | None = None) -> Review:
    def whole(amount: str) -> Json:
        head = {"apiVersion": SETTINGS.api_version, "kind": SETTINGS.kind, "metadata": {"name": "globalsettings"}}
        return {**head, "spec": {"defaultQuota": {"quota": {"memory": amount}}}}

    return review(
        kind={"group": SETTINGS.group, "version": SETTINGS.version, "kind": SETTINGS.kind},
        name="globalsettings",
        namespace="",
        operation="CREATE" if old is None else "UPDATE",
        object=whole(new),
        oldObject=None if old is None else whole(old),
        userInfo={"username": PERSON},
    )


async def test_a_default_beyond_all_numbers_is_refused_and_one_that_is_stored_can_be_corrected() -> None:
    refused = await answer("setting", setting_asked("1e999"))
    assert (refused.code, [cause.field for cause in refused.causes]) == (422, ["spec.defaultQuota.quota.memory"])
    assert (await answer("setting", setting_asked("2Gi", "1e999"))).allowed
    assert (await answer("setting", setting_asked("1e999", "1e999"))).allowed


async def test_a_second_quota_of_a_project_is_refused_in_the_words_of_kkp() -> None:
    decided = await answer("validate", asked(body()), quotas=(body(name="older"),))
    assert not decided.allowed
    assert 'Subject\'s Name "abc" and Kind pair "project" must be unique: older has it' in decided.message


async def test_our_own_controllers_are_not_held_up() -> None:
    decided = await answer("validate", asked(body({"cpu": "-1"}, record=OTHER), body(record=RECORD), user=OURS))
    assert decided == Decision.allow()


async def test_a_quota_that_is_going_may_be_changed_whatever_is_wrong_with_it() -> None:
    going = body({"cpu": "-1"}, deletionTimestamp="2026-05-01T11:00:00Z", record=RECORD)
    assert (await answer("validate", asked(going, body(record=RECORD)))).allowed


# --- warned ----------------------------------------------------------------------------------------------------------


async def test_a_quota_below_use_is_taken_with_the_numbers_in_a_warning() -> None:
    decided = await answer("validate", asked(body({"cpu": "5"}, used="7"), body(used="7")))
    assert decided.allowed
    assert decided.warnings == (
        "cpu: 7 cores used, 2 cores more than the quota of 5 cores: no machine is removed, and new ones are refused until less"
        " is used",
    )


async def test_whoever_changes_a_default_quota_is_told_that_it_follows_the_setting() -> None:
    marked = {**SUBJECT, **BOTH}
    request = asked(body({"cpu": "5"}, labels=marked), body(labels=marked))
    decided = await answer("validate", request, default={"cpu": "10"})
    assert decided.allowed
    assert "is marked as a default quota, and will be what KubermaticSettings say" in decided.warnings[0]
    assert (await answer("validate", request)).warnings == ()


AWAY = {"seeds": [{"name": "us", "staleSince": "2026-05-01T10:00:00Z"}, {"name": "eu"}]}
TOLD = (
    "these seeds cannot be reached, and admit machines by what they were told before until they can: us (since"
    " 2026-05-01T10:00:00Z); Ready is False until then"
)


async def test_whoever_changes_limits_is_told_which_seeds_will_not_hear_of_it() -> None:
    old = {**body(), "status": AWAY}
    assert (await answer("validate", asked({**body({"cpu": "5"}), "status": AWAY}, old))).warnings == (TOLD,)
    labelled = {**body(labels={**SUBJECT, "team": "x"}), "status": AWAY}
    assert (await answer("validate", asked(labelled, old))).warnings == (), "the limits stay"


async def test_whoever_sets_a_first_limit_is_told_by_what_other_quotas_show() -> None:
    other = {**body(name="project-other", subject="other"), "status": AWAY}
    assert (await answer("validate", asked(body()), quotas=(other,))).warnings == (TOLD,)
    assert (await answer("validate", asked(body()))).warnings == ()


# --- put back --------------------------------------------------------------------------------------------------------


async def mutated(new: Json, old: Json | None = None, *, user: str = PERSON) -> Json:
    decided = await answer("mutate", asked(new, old, user=user))
    assert decided.allowed
    found: Json = jsonpatch.apply_patch(new, list(decided.patch))
    return found


@pytest.mark.parametrize(
    ("had", "given", "kept"),
    [
        pytest.param(RECORD, None, RECORD, id="one that is taken off comes back"),
        pytest.param(RECORD, OTHER, RECORD, id="one that is changed is put back"),
        pytest.param(RECORD, "{", RECORD, id="one that is broken is put back"),
        pytest.param(None, OTHER, None, id="one that is made up is taken off"),
        pytest.param("{", None, None, id="one that cannot be read may be taken off"),
        pytest.param("{", RECORD, RECORD, id="one that cannot be read may be mended"),
        pytest.param("{", "[", "{", id="one that cannot be read may not become another such"),
    ],
)
async def test_the_record_of_what_is_granted_is_written_by_ullage_alone(
    had: str | None, given: str | None, kept: str | None
) -> None:
    new, old = body({"cpu": "20"}, record=given), body(record=had)
    found = await mutated(new, old)
    assert found["metadata"]["annotations"].get(ESCROW) == kept
    decided = await answer("validate", asked(new, old))
    assert decided.allowed == (given == kept), "and where another webhook has changed it after ours, it is refused"
    if not decided.allowed:
        assert [cause.field for cause in decided.causes] == [f"metadata.annotations[{ESCROW}]"]


async def test_a_record_that_a_new_quota_brings_along_is_taken_off() -> None:
    found = await mutated(body(record=RECORD, labels={}))
    assert found["metadata"]["annotations"] == {}
    assert found["metadata"]["labels"] == SUBJECT
    assert not (await answer("validate", asked(body(record=RECORD)))).allowed


async def test_ullage_writes_records_and_labels_itself() -> None:
    assert await mutated(body(record=OTHER, labels={}), body(record=RECORD), user=OURS) == body(record=OTHER, labels={})


async def test_labels_follow_the_subject_and_those_of_others_stay() -> None:
    found = await mutated(body(labels={"subject-name": "other", "team": "x"}), body())
    assert found["metadata"]["labels"] == {**SUBJECT, "team": "x"}


# --- deleted ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "default", "project", "user", "allowed"),
    [
        pytest.param(BOTH, {"cpu": "10"}, {}, PERSON, False, id="a default one would be back at once"),
        pytest.param({}, {"cpu": "10"}, {}, PERSON, True, id="one of somebody's own"),
        pytest.param(BOTH, None, {}, PERSON, True, id="there is no default any more"),
        pytest.param(BOTH, {"cpu": "0"}, {}, PERSON, True, id="a default of nothing is none"),
        pytest.param(BOTH, {"cpu": "10"}, None, PERSON, True, id="its project is gone"),
        pytest.param(
            BOTH, {"cpu": "10"}, {"deletionTimestamp": "2026-05-01T11:00:00Z"}, PERSON, True, id="its project is going"
        ),
        pytest.param(BOTH, {"cpu": "10"}, {}, OURS, True, id="we take it away ourselves"),
    ],
)
async def test_a_default_quota_stays_as_long_as_the_setting_says_so(
    labels: Json, default: Json | None, project: Json | None, user: str, allowed: bool
) -> None:
    decided = await answer("delete", asked(None, body(labels=labels), user=user), default=default, project=project)
    assert decided.allowed == allowed
    if not allowed:
        assert (decided.code, decided.message) == (403, DEFAULT_STAYS)


# --- which requests are asked about ----------------------------------------------------------------------------------


def holds(conditions: Mapping[str, str], new: Json | None, old: Json | None) -> bool:
    found = []
    for expression in conditions.values():
        found.append(compile_condition(expression).evaluate({"object": new, "oldObject": old}, Budget()))
    assert set(found) <= {True, False}, found
    return all(found)


BARE: Json = {"metadata": {"name": "project-abc"}, "spec": {"subject": {"name": "abc"}}}


@pytest.mark.parametrize(
    ("new", "old", "asks"),
    [
        pytest.param(body(), None, True, id="a new one"),
        pytest.param(BARE, None, True, id="a new one without anything"),
        pytest.param(body({"cpu": "5"}), body(), True, id="other limits"),
        pytest.param(body(), body(record=RECORD), True, id="without the record"),
        pytest.param(body(labels={}), body(), True, id="without its labels"),
        pytest.param(body(labels={**SUBJECT, **BOTH}), body(), True, id="marked as a default"),
        pytest.param(BARE, body(record=RECORD), True, id="all of the metadata is gone"),
        pytest.param(body(finalizers=["a"]), body(), False, id="a finalizer"),
        pytest.param(body(used="7"), body(), False, id="the usage"),
        pytest.param(body(labels={**SUBJECT, "team": "x"}), body(), False, id="a label of somebody else"),
        pytest.param(BARE, BARE, False, id="nothing"),
    ],
)
def test_only_what_the_rules_are_about_is_asked(new: Json, old: Json | None, asks: bool) -> None:
    assert holds(ONLY_IF, new, old) == asks


@pytest.mark.parametrize(
    ("old", "asks"),
    [
        pytest.param(body(labels=BOTH), True, id="a default one"),
        pytest.param(body(labels={"default": "true"}), False, id="half a default"),
        pytest.param(body(labels={**BOTH, "default": "false"}), False, id="not a default"),
        pytest.param(BARE, False, id="one without labels"),
    ],
)
def test_only_the_deletion_of_default_quotas_is_asked_about(old: Json, asks: bool) -> None:
    assert holds(ONLY_DEFAULTS, None, old) == asks
