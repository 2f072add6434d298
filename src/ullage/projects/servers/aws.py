"""AWS: DescribeInstances of EC2 in every region of the account, by the tag `Machine-UID` that machine-controller gives to them.

An instance that is terminated is shown for about an hour, and is gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from typing import Any, Final

from ullage.projects.servers.contract import MOST_PAGES, chunks
from ullage.projects.sizes.lookups import ANYWHERE, Site
from ullage.projects.sizes.providers.aws import Aws
from ullage.projects.sizes.providers.contract import Credentials, NotAnswered

TAG: Final = "Machine-UID"
FIRST_REGION: Final = "us-east-1"  # any one that is not off for some accounts knows all others
STATES: Final = ["pending", "running", "shutting-down", "stopping", "stopped"]
_CHUNK: Final = 200  # values of one filter
_MOST_REGIONS: Final = 50


class AwsServers:
    source = "DescribeInstances"

    def __init__(self, address: str | None = None) -> None:
        """`address`: where everything is asked; None: what boto3 knows for each region."""
        self._aws = Aws(address)

    async def present(self, uids: Collection[str], credentials: Credentials, *, site: Site = ANYWHERE) -> frozenset[str]:
        return await self._aws.ask(site.region or FIRST_REGION, credentials, partial(self._present, frozenset(uids)))

    def _present(self, uids: frozenset[str], session: Any, how: dict[str, Any]) -> frozenset[str]:
        """In a thread."""
        answer = session.client("ec2", **how).describe_regions()
        regions = [str(one.get("RegionName", "")) for one in answer.get("Regions", [])]
        if not 1 <= len(regions) <= _MOST_REGIONS:
            raise NotAnswered(f"it names {len(regions) or 'no'} regions: 1 to {_MOST_REGIONS} are asked")
        found: set[str] = set()
        for region in regions:
            client = session.client("ec2", region_name=region, **how)
            found.update(uid for some in chunks(uids, _CHUNK) for uid in _marks(client, some))
        return uids & found


def _marks(client: Any, uids: list[str]) -> Iterator[str]:
    filters = [{"Name": f"tag:{TAG}", "Values": uids}, {"Name": "instance-state-name", "Values": STATES}]
    for number, page in enumerate(client.get_paginator("describe_instances").paginate(Filters=filters)):
        if number == MOST_PAGES:
            raise NotAnswered(f"it has more than {MOST_PAGES} pages of servers")
        for reservation in page.get("Reservations", []):
            for instance in reservation.get("Instances", []):
                yield from (tag["Value"] for tag in instance.get("Tags", []) if tag.get("Key") == TAG)
