"""Alibaba: DescribeInstances of ECS in every region, by the tag `machine_uid` that machine-controller gives to instances."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterable
from typing import Final

from ullage.clock import Clock
from ullage.projects.servers.contract import found_in, listed, value_of
from ullage.projects.sizes.lookups import ANYWHERE, Site
from ullage.projects.sizes.providers.alibaba import ADDRESS, REGION, Alibaba
from ullage.projects.sizes.providers.contract import Credentials, NotAnswered, inside, text_inside
from ullage.projects.sizes.providers.web import web

TAG: Final = "machine_uid"
FIRST_REGION: Final = "cn-hangzhou"  # any one knows all others
_MOST_REGIONS: Final = 50


class AlibabaServers:
    source = "DescribeInstances"

    def __init__(self, address: str = ADDRESS, *, clock: Clock | None = None) -> None:
        """`{region}` in the address is replaced."""
        self._calls = Alibaba(address, clock=clock)

    async def present(self, uids: Collection[str], credentials: Credentials, *, site: Site = ANYWHERE) -> frozenset[str]:
        return await found_in(uids, self._marks(site.region or FIRST_REGION, credentials))

    async def _marks(self, first: str, credentials: Credentials) -> AsyncGenerator[Iterable[str], None]:
        async with web() as calls:
            answer = await calls.get_exactly(self._calls.url("DescribeRegions", first, credentials))
            regions = [text_inside(one, "RegionId") for one in listed(answer, "Regions", "Region")]
            if not 1 <= len(regions) <= _MOST_REGIONS or not all(map(REGION.fullmatch, regions)):
                raise NotAnswered(f"it names {len(regions) or 'no'} regions: 1 to {_MOST_REGIONS} are asked")
            for region in regions:
                more: dict[str, str] | None = {}
                while more is not None:
                    query = {"MaxResults": "100", "Tag.1.Key": TAG, **more}
                    page = await calls.get_exactly(self._calls.url("DescribeInstances", region, credentials, **query))
                    yield [uid for one in listed(page, "Instances", "Instance") for uid in _uids(one)]
                    token = text_inside(page, "NextToken")
                    more = {"NextToken": token} if token else None


def _uids(instance: object) -> Iterable[str]:
    tags = inside(instance, "Tags", "Tag")
    named = [tag for tag in tags if text_inside(tag, "TagKey") == TAG] if isinstance(tags, list) else []
    return [uid for tag in named for uid in value_of(tag, "TagValue")]
