"""From admission requests to charges."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.unit.ledger.simulated import CUPS, STAMP, cup_key, taken, takes
from ullage.kube.review import GroupVersionKind, GroupVersionResource, Operation, Request, Review, Unreadable
from ullage.ledger.amounts import NOTHING
from ullage.ledger.book import Charge
from ullage.ledger.charges import Addressed, NoIdentity, charge_of
from ullage.ledger.service.views import Evaluator


def body(size: int, *, uid: str = "u", version: str = "7", team: str = "team") -> dict[str, Any]:
    labels = {"team": team}
    meta = {"name": "a", "namespace": "team", "uid": uid, "resourceVersion": version, "labels": labels}
    return {"metadata": meta, "spec": {"size": size}}


def review(operation: Operation, new: Any = None, old: Any = None, *, dry_run: bool = False) -> Review:
    return Review(
        Request(
            uid="review",
            operation=operation,
            kind=GroupVersionKind(group=CUPS.group, version=CUPS.version, kind=CUPS.kind),
            resource=GroupVersionResource(group=CUPS.group, version=CUPS.version, resource=CUPS.plural),
            namespace="team",
            name="a",
            dry_run=dry_run,
            object=msgspec.Raw(msgspec.json.encode(new)),
            old_object=msgspec.Raw(msgspec.json.encode(old)),
        )
    )


BY_LABEL = Evaluator(ledger_of=lambda cup: cup.metadata.labels["team"], takes=taken)


def charge(**rest: Any) -> Charge:
    return Charge(**{"key": cup_key("a"), "uid": "u", "now": takes(3), **rest})


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        pytest.param(review("CREATE", body(3, version="")), charge(), id="a create is based on nothing"),
        pytest.param(
            replace(review("CREATE", body(3)), cluster="far"),
            charge(key=cup_key("a", cluster="far")),
            id="an object of another cluster is another object",
        ),
        pytest.param(review("CREATE", body(3), dry_run=True), charge(dry_run=True), id="a dry run says so"),
        pytest.param(
            review("UPDATE", body(3, version="9"), body(2)),
            charge(on_version=7, old=takes(2)),
            id="an update is based on the old object, whatever version its client names",
        ),
        pytest.param(
            review("UPDATE", body(3), body(2, team="other")),
            charge(on_version=7, old=NOTHING),
            id="an object that moves here is wholly new",
        ),
        pytest.param(review("UPDATE", body(0), body(2)), None, id="an update that leaves nothing asks nothing"),
        pytest.param(review("DELETE", None, body(2)), None, id="a deletion asks nothing"),
    ],
)
def test_a_request_asks_for(asked: Review, wanted: Charge | None) -> None:
    assert charge_of(asked, CUPS, BY_LABEL) == (Addressed("team", wanted) if wanted else None)


def test_growth_that_has_happened_is_marked_by_whoever_may() -> None:
    found = charge_of(review("UPDATE", body(3), body(2)), CUPS, BY_LABEL, past_limit=True)
    assert found is not None
    assert found.charge.past_limit


def test_an_object_without_a_uid_cannot_be_booked() -> None:
    with pytest.raises(NoIdentity):
        charge_of(review("CREATE", body(3, uid="")), CUPS, BY_LABEL)


def test_an_object_that_would_take_less_than_nothing_is_refused_with_its_field() -> None:
    with pytest.raises(Unreadable, match=r"^cups\.size: -90: an amount is not negative$") as caught:
        charge_of(review("CREATE", body(-90)), CUPS, BY_LABEL)
    assert caught.value.cause.field == "cups.size"


def spoilt(size: int) -> Any:
    made = body(size)
    return {**made, "metadata": {**made["metadata"], "annotations": {STAMP: "x"}}}


def test_what_is_mended_past_the_limit_is_counted_with_the_rest_of_its_kind_and_not_booked() -> None:
    """Five hundred bookings would otherwise wait until the last of thirty thousand can be read, and keep it from that."""
    assert charge_of(review("UPDATE", body(3), spoilt(3)), CUPS, BY_LABEL, past_limit=True) is None
    assert charge_of(review("UPDATE", body(3), spoilt(3)), CUPS, BY_LABEL) == Addressed(
        "team", charge(on_version=7, old=NOTHING)
    )


def test_what_is_mended_and_moved_to_another_ledger_is_booked_there() -> None:
    """Where it comes to, the others of its kind are counted all the time."""
    elsewhere = {**spoilt(3), "metadata": {**spoilt(3)["metadata"], "labels": {"team": "other"}}}
    found = charge_of(review("UPDATE", body(3), elsewhere), CUPS, BY_LABEL, past_limit=True)
    assert found == Addressed("team", charge(on_version=7, old=NOTHING, past_limit=True))


def test_an_object_that_could_be_counted_stays_one_that_can() -> None:
    with pytest.raises(ValueError, match="'x' is no stamp"):
        charge_of(review("UPDATE", spoilt(3), body(3)), CUPS, BY_LABEL)


def test_an_object_that_cannot_be_counted_can_still_lose_its_finalizers() -> None:
    assert charge_of(review("UPDATE", spoilt(3), spoilt(3)), CUPS, BY_LABEL) is None


def test_what_mends_an_object_that_takes_less_than_nothing_pays_for_all_of_it() -> None:
    """Nothing of it is in any sum."""
    mended = charge_of(review("UPDATE", body(3), body(-90)), CUPS, BY_LABEL)
    assert mended == Addressed("team", charge(on_version=7, old=NOTHING))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        pytest.param({"name": "a/b"}, "metadata.name", id="a name that is a path"),
        pytest.param({"name": ".."}, "metadata.name", id="a name that leads elsewhere"),
        pytest.param({"name": "a%2fb"}, "metadata.name", id="a name that is a path, quoted"),
        pytest.param({"name": "a\n"}, "metadata.name", id="a name with another line"),
        pytest.param({"name": "x" * 254}, "metadata.name", id="a name without end"),
        pytest.param({"uid": "x" * 65}, "metadata.uid", id="a uid without end"),
        pytest.param({"resourceVersion": "-7"}, "metadata.resourceVersion", id="a version below zero"),
        pytest.param({"resourceVersion": "7" * 19}, "metadata.resourceVersion", id="a version without end"),
        pytest.param({"resourceVersion": "seven"}, "metadata.resourceVersion", id="a version that is no number"),
    ],
)
def test_what_no_api_server_sends_is_not_booked(changes: dict[str, str], field: str) -> None:
    """Whoever speaks for another cluster can send it, and nobody could ever look whether there is such an object."""
    odd, plain = body(3), body(2)
    odd["metadata"].update(changes)
    plain["metadata"].update(changes)
    with pytest.raises(Unreadable) as caught:
        charge_of(replace(review("UPDATE", odd, plain), cluster="far"), CUPS, BY_LABEL)
    assert caught.value.cause.field == field


def test_a_namespace_that_there_cannot_be_is_not_booked() -> None:
    asked = review("CREATE", body(3))
    with pytest.raises(Unreadable, match=r"metadata\.namespace: no namespace can be called that"):
        charge_of(replace(asked, request=msgspec.structs.replace(asked.request, namespace="a/b")), CUPS, BY_LABEL)
