"""Having an object pay for what was measured: what its stamp becomes, and what is made of the answers to that."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.snapshots.charged_api import ChargedApi, stamp
from ullage.errors import NotNow
from ullage.kube.errors import Conflict, Forbidden, Invalid, TooManyRequests
from ullage.kube.kinds import Meta
from ullage.ledger.amounts import NOTHING, BadAmount
from ullage.ledger.charging.booking import TRIES, book, measured, payer, refusal
from ullage.ledger.charging.methods import CAPACITY
from ullage.ledger.charging.raising import NoRoom
from ullage.ledger.charging.stamps import FREE, STAMP, BadStamp, stamp_of
from ullage.ledger.charging.waiting import ONE_PLACE, WAITS, YES, place_of
from ullage.snapshots.api.ga.types import VOLUME_SNAPSHOTS


def meta(text: str | None) -> Meta:
    return Meta(annotations={STAMP: text} if text is not None else {})


@pytest.mark.parametrize(
    ("text", "pays"),
    [
        pytest.param(None, False, id="nobody is charged for it"),
        pytest.param(str(FREE), False, id="somebody else pays for it"),
        pytest.param('{"machines":{"count":"1"}}', False, id="it takes no room"),
        pytest.param(stamp(0), True, id="it takes nothing as yet"),
        pytest.param(stamp(5), True, id="it takes something"),
    ],
)
def test_who_pays(text: str | None, pays: bool) -> None:
    assert (payer(meta(text)) is not None) is pays


@pytest.mark.parametrize("text", ["", "{", '{"a":{"storage":"many"}}', '{"a":{"storage":"-1"}}'])
def test_a_stamp_that_cannot_be_read_pays_nobody_s_bill(text: str) -> None:
    with pytest.raises((BadStamp, BadAmount)):
        payer(meta(text))


@pytest.mark.parametrize(
    ("had", "amount", "lower", "wanted"),
    [
        pytest.param(5, 8, True, 8, id="more"),
        pytest.param(5, 8, False, 8, id="more, of one that may not be lowered"),
        pytest.param(5, 3, True, 3, id="less"),
        pytest.param(5, 3, False, 5, id="less, of one that may have taken more already"),
        pytest.param(0, 3, False, 3, id="one that has failed before"),
        pytest.param(5, 0, True, 0, id="nothing, and it keeps its accounts"),
    ],
)
def test_the_stamp_for_what_was_measured(had: int, amount: int, lower: bool, wanted: int) -> None:
    found = measured(stamp_of(meta(stamp(had))), amount, lower=lower)
    assert found == stamp_of(meta(stamp(wanted)))


def made(api: ChargedApi, *, taken: int = 5, **changed: Any) -> Any:
    body = {"metadata": {"name": "snap", "namespace": "team", "annotations": {STAMP: stamp(taken)}, **changed}}
    body |= {"spec": {"source": {"persistentVolumeClaimName": "db"}}}
    api.put(VOLUME_SNAPSHOTS, body)


async def seen(api: ChargedApi) -> Any:
    return await api.find(VOLUME_SNAPSHOTS, "snap", "team")


async def test_it_is_looked_at_anew_where_somebody_else_has_written() -> None:
    api = ChargedApi(10)
    made(api)
    old = await seen(api)
    api.edit(VOLUME_SNAPSHOTS, "snap", "team", merge={"metadata": {"labels": {"a": "b"}, "annotations": {STAMP: stamp(7)}}})
    found = await book(api, VOLUME_SNAPSHOTS, old, 6, lower=False)
    assert found is not None
    assert stamp_of(found.metadata) == stamp_of(meta(stamp(7)))  # which the other one raised
    found = await book(api, VOLUME_SNAPSHOTS, old, 9, lower=True)
    assert found is not None
    assert stamp_of(found.metadata) == stamp_of(meta(stamp(9)))


@pytest.mark.parametrize(("had", "amount"), [(0, 0), (0, 6)], ids=["nothing is in it", "something is in it"])
async def test_what_was_measured_gives_its_waiting_place_back(had: int, amount: int) -> None:
    api = ChargedApi(10)
    made(api, annotations={STAMP: stamp(had), WAITS: YES})
    found = await book(api, VOLUME_SNAPSHOTS, await seen(api), amount, lower=True)
    assert found is not None
    assert stamp_of(found.metadata) == stamp_of(meta(stamp(amount)))
    assert place_of(found.metadata) == NOTHING
    assert await book(api, VOLUME_SNAPSHOTS, found, amount, lower=True) is found, "no write for nothing"


async def test_what_does_not_fit_keeps_its_waiting_place() -> None:
    api = ChargedApi(10)
    made(api, annotations={STAMP: stamp(0), WAITS: YES})
    with pytest.raises(NoRoom):
        await book(api, VOLUME_SNAPSHOTS, await seen(api), 11, lower=True)
    assert place_of((await seen(api)).metadata) == ONE_PLACE


@pytest.mark.parametrize(
    "gone",
    [
        pytest.param({"uid": "another"}, id="another one of the name"),
        pytest.param({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]}, id="one that is going"),
        pytest.param(None, id="none"),
    ],
)
async def test_what_is_gone_or_going_is_not_booked(gone: dict[str, Any] | None) -> None:
    api = ChargedApi(10)
    made(api)
    old = await seen(api)
    if gone is None:
        api.remove(VOLUME_SNAPSHOTS, "snap", "team")
    else:
        made(api, **gone)
    assert await book(api, VOLUME_SNAPSHOTS, old, 8, lower=True) is None
    assert api.stamps == []


@pytest.mark.parametrize(
    ("answer", "raised", "text"),
    [
        pytest.param(Forbidden("too many share it"), NotNow, "what it takes cannot be booked: too many share it", id="refused"),
        pytest.param(Invalid("no stamp"), NotNow, "what it takes cannot be booked: no stamp", id="a fault of ours"),
        pytest.param(TooManyRequests("busy"), TooManyRequests, "busy", id="told to ask again"),
    ],
)
async def test_an_answer_that_is_no_refusal_for_want_of_room(answer: Exception, raised: type[Exception], text: str) -> None:
    api = ChargedApi(10)
    made(api)
    api.answers = [answer]
    with pytest.raises(raised) as error:
        await book(api, VOLUME_SNAPSHOTS, await seen(api), 8, lower=True)
    assert str(error.value) == text


async def test_a_refusal_says_what_was_measured_and_all_numbers() -> None:
    api = ChargedApi(10)
    made(api)
    with pytest.raises(NoRoom) as error:
        await book(api, VOLUME_SNAPSHOTS, await seen(api), 11, lower=True)
    numbers = "does not fit: snapshots/namespace storage: asked 11, used 0, limit 10"
    assert str(error.value) == f"a snapshot of the volume takes 11 bytes by now, which {numbers}"


def test_what_was_never_measured_is_not_said_to_be_taken() -> None:
    assert str(refusal(4096, "does not fit: …", by=CAPACITY)) == (
        "a snapshot of the volume may take its capacity of 4Ki, since nothing tells less, which does not fit: …"
    )


async def test_who_is_overtaken_again_and_again_gives_up_for_now() -> None:
    api = ChargedApi(10)
    made(api)
    api.answers = [Conflict("it has changed")] * (TRIES + 1)
    with pytest.raises(Conflict):
        await book(api, VOLUME_SNAPSHOTS, await seen(api), 8, lower=True)
    assert len(api.answers) == 1


@pytest.mark.parametrize(
    ("told", "writes"),
    [pytest.param({}, 0, id="nothing has changed"), pytest.param({"a/b": "c"}, 1, id="but something is to be told")],
)
async def test_what_is_booked_already_costs_no_write(told: dict[str, str], writes: int) -> None:
    api = ChargedApi(10)
    made(api)
    await book(api, VOLUME_SNAPSHOTS, await seen(api), 5, lower=True, also={"x/y": "z"}, told=told)
    assert len(api.stamps) == writes
