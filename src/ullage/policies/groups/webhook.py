"""The hook on VolumeGroupSnapshots that name commands for their cut: as on VolumeSnapshots, only who may exec into pods may.

It is asked in every version of the kind that is served here: a right that one of them does not ask for is none.
"""

from __future__ import annotations

from typing import Final

from ullage.kube.review import Decision, Hook, Review, Target
from ullage.kube.slices import Wiring
from ullage.policies.cut_hooks.api import HOOKS
from ullage.policies.cut_hooks.webhook.access import Asker
from ullage.policies.cut_hooks.webhook.hooks import differ, judge_hooks
from ullage.policies.groups.api import GROUPS, NEXT_GROUPS

NAME: Final = "cut-hooks-group-access"


def make_hooks(wiring: Wiring) -> list[Hook]:
    targets = tuple(Target.of(kind, "CREATE", "UPDATE") for kind in (GROUPS, NEXT_GROUPS))
    return [
        Hook(
            name=NAME,
            phase="validate",
            targets=targets,
            answer=GroupHooks(wiring.client).validate,
            only_if=differ(HOOKS),
            side_effects="None",
        )
    ]


class GroupHooks:
    def __init__(self, client: Asker) -> None:
        self._client = client

    async def validate(self, review: Review) -> Decision:
        kind = NEXT_GROUPS if review.request.kind.version == NEXT_GROUPS.version else GROUPS
        return await judge_hooks(self._client, review, kind)
