"""What `ullage schedule` can be told: what cannot be is refused before a cluster is asked, in the words of the option."""

from __future__ import annotations

import pytest

from ullage.cli.schedule import options
from ullage.errors import BadInput
from ullage.selectors import LabelSelector


@pytest.mark.parametrize(
    ("given", "labels", "matches"),
    [
        (None, {}, True),
        ("app=db", {"app": "db"}, True),
        ("app=db,tier!=test", {"app": "db", "tier": "test"}, False),
        ("app in (a,b),!old", {"app": "b"}, True),
        ("app notin (a,b),x", {"x": ""}, True),
        ("app,!old", {"app": "", "old": ""}, False),
    ],
)
def test_a_selector_means_the_same_as_an_object(given: str | None, labels: dict[str, str], matches: bool) -> None:
    made = LabelSelector.of(options.claim_selector(given))
    assert made.matches(labels) is LabelSelector.parse(given or "").matches(labels) is matches


@pytest.mark.parametrize("given", ["a b", "x > 3", "a=b=c"])
def test_what_is_no_selector_is_refused(given: str) -> None:
    with pytest.raises(BadInput, match=r"--claims .*app=db"):
        options.claim_selector(given)


@pytest.mark.parametrize(
    ("schedule", "zone", "words"),
    [("61 * * * *", "UTC", "--schedule .*minute '61'"), ("@daily", "Mars", "--time-zone 'Mars'")],
)
def test_times_are_checked_in_the_words_of_the_options(schedule: str, zone: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        options.check_times(schedule, zone)


def test_what_is_kept() -> None:
    assert options.retention(3, "30d", "10Gi") == {"count": 3, "age": "30d", "totalSize": "10Gi"}
    assert options.retention(None, None, None) == {}
    with pytest.raises(BadInput, match=r"--keep-for .*30d"):
        options.retention(None, "long", None)
    with pytest.raises(BadInput, match=r"--keep-size .*100Gi"):
        options.retention(None, None, "much")
