"""What an uninstall says of objects that do not go."""

from __future__ import annotations

from typing import Any

import pytest

from ullage.app.installer.outcomes import Outcome
from ullage.app.installer.uninstaller import SHOWN, FoundObject, Uninstaller
from ullage.kube.builtin.core import CONFIG_MAPS
from ullage.kube.kinds import Meta


class NoLease:
    async def find(self, *what: Any) -> None:
        return None


@pytest.mark.parametrize(
    ("count", "last"),
    [
        pytest.param(
            1, "not gone after 120 s, held by a/b; no controller runs: start one, it gives back what they hold", id="one"
        ),
        pytest.param(SHOWN + 1, "not gone either", id="one more than are told of one by one"),
        pytest.param(SHOWN + 2, "not gone either, nor is one other", id="two more"),
        pytest.param(SHOWN + 3, "not gone either, nor are 2 others", id="three more"),
    ],
)
async def test_what_is_stuck_is_told_of_by_name_up_to_a_number(count: int, last: str) -> None:
    told: list[Outcome] = []
    found = [FoundObject(CONFIG_MAPS, Meta(name=f"m{number}", finalizers=("a/b",))) for number in range(count)]
    await Uninstaller(NoLease(), tell=told.append)._stuck(found)  # type: ignore[arg-type]
    assert len(told) == min(count, SHOWN + 1)
    assert told[-1].why == last
