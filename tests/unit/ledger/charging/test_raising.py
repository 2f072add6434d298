"""Another stamp on an object: written on condition, booked or refused with its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import pytest

from tests.unit.ledger.simulated import CUPS, Cup, CupSpec
from ullage.kube.errors import ApiError, Conflict, Forbidden
from ullage.kube.kinds import Kind, Meta, Object
from ullage.ledger.amounts import Cell
from ullage.ledger.charging.raising import NoRoom, restamp
from ullage.ledger.charging.stamps import FREE, STAMP, Stamp, stamp_of
from ullage.quantity import Quantity

T = TypeVar("T", bound=Object)

META = Meta(name="a", namespace="team", uid="u", resource_version="7")
SPACE, VM, COUNT = Cell("all", "storage"), Cell("vm/db", "storage"), Cell("all", "count")


class Api:
    """Remembers what was patched; answers with an error if it has one."""

    def __init__(self, error: ApiError | None = None) -> None:
        self.error = error
        self.patches: list[dict[str, Any]] = []

    async def patch(
        self,
        kind: Kind[T],
        name: str,
        namespace: str = "",
        *,
        merge: Mapping[str, Any] | None = None,
        subresource: str = "",
        uid: str = "",
        resource_version: str = "",
    ) -> T:
        if self.error is not None:
            raise self.error
        self.patches.append({"of": (namespace, name, uid, resource_version), "merge": merge})
        return Cup(metadata=META, spec=CupSpec(size=1))  # type: ignore[return-value]  # the one kind that is patched here


def stamp(**cells: int) -> Stamp:
    names = {"space": SPACE, "vm": VM, "count": COUNT}
    return Stamp({names[key]: Quantity.of(amount) for key, amount in cells.items()})


async def test_a_stamp_is_written_on_condition_of_uid_and_version() -> None:
    api = Api()
    await restamp(api, CUPS, META, stamp(space=5), also={"other": "x"})
    (patch,) = api.patches
    assert patch["of"] == ("team", "a", "u", "7")
    assert patch["merge"] == {"metadata": {"annotations": {"other": "x", STAMP: '{"all":{"storage":"5"}}'}}}


async def test_what_is_refused_for_want_of_room_is_told_with_the_numbers_alone() -> None:
    said = 'admission webhook "space.ullage.io" denied the request: does not fit: all storage: asked 5 bytes, limit 3 bytes'
    with pytest.raises(NoRoom) as caught:
        await restamp(Api(Forbidden(said, code=403)), CUPS, META, stamp(space=5))
    assert str(caught.value) == "does not fit: all storage: asked 5 bytes, limit 3 bytes"


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(
            Forbidden('User "x" cannot patch resource "cups"', code=403), id="a right that we lack is no want of room"
        ),
        pytest.param(Conflict("the object has been modified", code=409), id="somebody else wrote first"),
    ],
)
async def test_other_errors_pass_through(error: ApiError) -> None:
    with pytest.raises(type(error)) as caught:
        await restamp(Api(error), CUPS, META, stamp(space=5))
    assert caught.value is error


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(stamp(space=5, vm=5), stamp(space=9, vm=9), id="every account of the resource"),
        pytest.param(stamp(space=5, count=1), stamp(space=9, count=1), id="no other resource"),
        pytest.param(stamp(space=0), stamp(space=9), id="an account that nothing was taken from"),
        pytest.param(FREE, FREE, id="what somebody else pays for stays free"),
    ],
)
def test_a_stamp_keeps_its_accounts_when_its_size_changes(before: Stamp, after: Stamp) -> None:
    assert before.resized("storage", 9) == after


def test_a_stamp_of_nothing_keeps_its_accounts_in_writing() -> None:
    written = str(stamp(space=0))
    assert written == '{"all":{"storage":"0"}}'
    found = stamp_of(Meta(annotations={STAMP: written}))
    assert found == stamp(space=0)
    assert not found.takes
