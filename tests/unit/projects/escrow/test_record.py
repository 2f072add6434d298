"""The record on the quota's own object, which quota has it, and what is said while it is not in force."""

from __future__ import annotations

import pytest

from tests.unit.projects.builders import details, meta, quota
from ullage.errors import BadInput
from ullage.projects.api.amounts import ResourceDetails
from ullage.projects.api.quotas import ResourceQuota
from ullage.projects.escrow.progress import handing_over, not_in_force
from ullage.projects.escrow.record import has_record, heir, leading, read_record, record_patch
from ullage.projects.escrow.terms import Escrow, Part, Share
from ullage.projects.names import ESCROW
from ullage.quantity import Quantity


def cpu(count: int) -> Quantity:
    return Quantity.of(count)


def share(granted: int | None, target: int) -> Share:
    return Share(3, parts={"cpu": Part(None if granted is None else cpu(granted), cpu(target))})


RECORD = Escrow({"us": share(4, 4), "eu": share(None, 6)})


def test_a_record_is_read_back_as_it_was_written() -> None:
    (text,) = record_patch(RECORD)["metadata"]["annotations"].values()
    assert text == '{"eu":{"change":3,"target":{"cpu":"6"}},"us":{"change":3,"granted":{"cpu":"4"},"target":{"cpu":"4"}}}'
    assert read_record(meta("a", annotations={ESCROW: text})) == RECORD
    assert record_patch(None) == {"metadata": {"annotations": {ESCROW: None}}}


def test_no_record_is_an_empty_one() -> None:
    assert read_record(meta("a")) == Escrow()
    assert not has_record(meta("a"))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"eu": 1}', '{"eu": {"change": "1"}}', "[" * 100_000])
def test_what_is_no_record_is_not_taken_for_an_empty_one(text: str) -> None:
    found = meta("a", annotations={ESCROW: text})
    assert has_record(found)
    with pytest.raises(BadInput, match=r"metadata\.annotations\[ullage\.io/escrow\]") as caught:
        read_record(found)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("quotas", "name"),
    [
        pytest.param([], None, id="there is none"),
        pytest.param([quota(name="b"), quota(name="a")], "a", id="the same one each time"),
        pytest.param([quota(name="a"), quota()], "project-abc", id="the one with the right name"),
        pytest.param(
            [quota(), quota(name="a", annotations={ESCROW: "{"})], "a", id="the one with the record, though nobody can read it"
        ),
        pytest.param(
            [quota(), quota(name="a", annotations={ESCROW: "{}"}, deleting=True)], "a", id="the one with the record is going"
        ),
    ],
)
def test_which_of_several_quotas_of_a_project_is_in_force(quotas: list[ResourceQuota], name: str | None) -> None:
    found = leading(quotas)
    assert (found.metadata.name if found else None) == name


GOING = quota(limits=details(cpu=10), deleting=True)
OTHER = quota(limits=details(memory="4Gi"), name="mine")


@pytest.mark.parametrize(
    ("others", "default", "limits", "said"),
    [
        pytest.param([], details(), None, "the seeds are told that there is no limit any more", id="there is no default"),
        pytest.param(
            [],
            details(cpu=4),
            details(cpu=4),
            "the default is in force in its place: cpu 4 cores, and the seeds are told so",
            id="a default",
        ),
        pytest.param(
            [OTHER],
            details(cpu=4),
            details(memory="4Gi"),
            "the quota mine is in force in its place: memory 4Gi, and the seeds are told so",
            id="another quota goes before the default",
        ),
        pytest.param(
            [quota(name="mine")],
            None,
            details(),
            "the quota mine is in force in its place: no limit, and the seeds are told so",
            id="another quota without a limit",
        ),
        pytest.param(
            [quota(name="mine", limits=details(cpu=1), deleting=True)],
            details(),
            None,
            "the seeds are told that there is no limit any more",
            id="another one that goes, too",
        ),
        pytest.param(
            [],
            None,
            details(cpu=10),
            "its limits stay, since nobody can tell which default takes its place: mend spec.defaultQuota of the"
            " KubermaticSetting globalsettings",
            id="nobody can tell",
        ),
    ],
)
def test_what_holds_while_a_quota_is_being_deleted(
    others: list[ResourceQuota], default: ResourceDetails | None, limits: ResourceDetails | None, said: str
) -> None:
    found = heir(GOING, [GOING, *others], default)
    assert (found.spec.quota if found else None) == limits
    assert handing_over(GOING, found) == said


@pytest.mark.parametrize(
    ("shares", "limit", "seeds", "said"),
    [
        pytest.param({"eu": share(6, 6), "us": share(4, 4)}, 10, {"eu": True, "us": True}, "", id="in force"),
        pytest.param({"eu": share(6, 6), "us": share(4, 4)}, 10, {"eu": True, "us": False}, "", id="one is away, and was told"),
        pytest.param(
            {"eu": share(6, 6), "us": share(4, 2)},
            8,
            {"eu": True, "us": True},
            "cpu: the seeds may still use 10 cores together, and 8 cores are allowed; what is used stays",
            id="lowered, and not all of it is back",
        ),
        pytest.param(
            {"eu": share(None, 6), "us": share(4, 4)},
            10,
            {"eu": True, "us": True},
            "may still admit without a limit: eu",
            id="one has not confirmed its first limit",
        ),
        pytest.param({}, 10, {"eu": True}, "not told yet: eu", id="a new one"),
        pytest.param(
            {},
            10,
            {f"seed-{number}": False for number in range(7)},
            "never heard of, and without a limit there: seed-0, seed-1, seed-2, seed-3, seed-4 and 2 more;"
            " see `kubectl get seeds -A`",
            id="many that were never heard of",
        ),
        pytest.param({"eu": share(None, 6)}, None, {"eu": True, "us": False}, "", id="there is no limit"),
    ],
)
def test_why_a_quota_is_not_in_force_yet(
    shares: dict[str, Share], limit: int | None, seeds: dict[str, bool], said: str
) -> None:
    assert not_in_force(Escrow(shares), {} if limit is None else {"cpu": cpu(limit)}, seeds) == said
