"""The quota of a namespace follows Rancher's annotation, and comes back whoever changes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.unit.standalone.world.longhorn import Place, place_in
from ullage.kube.builtin.core import CORE_QUOTAS, NAMESPACES
from ullage.standalone.world.quotas import quota_name

ANNOTATION = "field.cattle.io/resourceQuota"


def limits(place: Place, text: str | None) -> None:
    place.api.edit(NAMESPACES, "shop", merge={"metadata": {"annotations": {ANNOTATION: text}}})


def hard(place: Place) -> list[dict[str, Any]]:
    return [one["spec"]["hard"] for one in place.api.bodies(CORE_QUOTAS)]


async def test_it_follows_the_annotation_and_whoever_changes_it_is_put_right_later_and_later(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        place.api.put(NAMESPACES, {"metadata": {"name": "shop", "uid": "uid-shop"}})
        async with place.living() as settles:
            limits(place, '{"limit":{"limitsCpu":"4","limitsMemory":"5Gi"}}')
            await settles(lambda: hard(place) == [{"limits.cpu": "4", "limits.memory": "5Gi"}])
            limits(place, '{"limit":{"limitsCpu":"8"}}')
            await settles(lambda: hard(place) == [{"limits.cpu": "8"}])
            limits(place, "nonsense")
            await settles(lambda: "UnreadableResourceQuota" in place.told.reasons)
            assert hard(place) == [{"limits.cpu": "8"}]
            limits(place, '{"limit":{"limitsCpu":"4"}}')
            await settles(lambda: hard(place) == [{"limits.cpu": "4"}])

            (quota,) = place.api.bodies(CORE_QUOTAS)
            name, written = quota["metadata"]["name"], []
            place.api.refuse = lambda what: written.append(what) if what.startswith("patch resourcequotas") else None

            def raises() -> None:
                place.api.edit(CORE_QUOTAS, name, "shop", merge={"spec": {"hard": {"limits.cpu": "5"}}})

            raises()
            await settles(lambda: hard(place) == [{"limits.cpu": "4"}])
            for _ in range(20):
                raises()
                await settles(lambda: len(written) >= 1)
            assert len(written) <= 2  # not as often as it was raised
            limits(place, None)
            await settles(lambda: not hard(place))


async def test_one_that_is_deleted_comes_back_under_its_name(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        place.api.put(NAMESPACES, {"metadata": {"name": "shop", "uid": "uid-shop"}})
        limits(place, '{"limit":{"pods":"3"}}')
        await place.live(lambda: bool(hard(place)))
        (first,) = place.api.bodies(CORE_QUOTAS)
        place.api.remove(CORE_QUOTAS, first["metadata"]["name"], "shop")
        await place.live(lambda: bool(hard(place)))
        (again,) = place.api.bodies(CORE_QUOTAS)
        assert again["metadata"]["name"] == first["metadata"]["name"]
        assert again["metadata"]["uid"] != first["metadata"]["uid"]
        assert first["metadata"]["name"] == quota_name((await place.api.find(NAMESPACES, "shop")).metadata)
