"""What pays does not go, and nothing is kept for ever."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ullage.kube.kinds import Meta
from ullage.ledger.charging.release import LONGEST_SECONDS, seconds_held
from ullage.ledger.charging.stamps import STAMP
from ullage.times import timestamp

DELETED = datetime(2026, 1, 1, tzinfo=UTC)
PAYS = '{"snapshots/namespace":{"storage":"5"}}'


@pytest.mark.parametrize(
    ("stamp", "after", "held"),
    [
        pytest.param(PAYS, 0, LONGEST_SECONDS, id="one that pays stays"),
        pytest.param(PAYS, 20, LONGEST_SECONDS - 20, id="for a while"),
        pytest.param(PAYS, LONGEST_SECONDS + 1, 0, id="and no longer, whoever should have seen to it"),
        pytest.param("{}", 0, 0, id="one that pays nothing goes"),
        pytest.param('{"snapshots/namespace":{"storage":"0"}}', 0, 0, id="so does one with an empty account"),
        pytest.param(None, 0, 0, id="and one that was never stamped"),
        pytest.param("{", 0, 0, id="and one whose stamp cannot be read"),
    ],
)
def test_how_long_an_object_is_held(stamp: str | None, after: float, held: float) -> None:
    meta = Meta(annotations={} if stamp is None else {STAMP: stamp}, deletion_timestamp=timestamp(DELETED))
    assert seconds_held(meta, DELETED + timedelta(seconds=after)) == held


def test_an_object_that_is_to_stay_is_not_held() -> None:
    """Finalizers go from such ones, too: where nothing came of them."""
    assert seconds_held(Meta(annotations={STAMP: PAYS}), DELETED) == 0
