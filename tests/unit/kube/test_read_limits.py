"""What texts and objects weigh: no less than they take, whatever is in them."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.unit.kube.clusters.hostile import machine
from ullage.kube.client import codec
from ullage.kube.read_limits import KIB, LONGEST, MIB, ReadLimits, object_weight, overlong, shown, text_weight
from ullage.kube.token_bucket import TokenBucket
from ullage.projects.api.machines import MACHINES, Machine


class HandClock:
    def __init__(self) -> None:
        self.at = 100.0

    def monotonic(self) -> float:
        return self.at

    def now(self) -> Any:
        raise NotImplementedError


def taken(make: Callable[[], Any]) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        kept = make()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
        del kept


SHAPES = [
    pytest.param([[]] * 3000, id="empty lists"),
    pytest.param([{}] * 3000, id="empty mappings"),
    pytest.param([[[[[[]]]]]] * 800, id="lists in lists"),
    pytest.param({f"k{number}": {} for number in range(3000)}, id="mappings in a mapping"),
    pytest.param([{"a": 1} for _ in range(3000)], id="mappings of one entry"),
    pytest.param([{f"k{number}": f"v{number}"} for number in range(3000)], id="mappings of one entry that all differ"),
    pytest.param({f"{number:x}": "" for number in range(5000)}, id="keys without values"),
    pytest.param([1.5] * 3000, id="fractions"),
    pytest.param([10**15 + number for number in range(3000)], id="large numbers"),
    pytest.param(["é"] * 3000, id="accents"),
    pytest.param("a" * 30_000 + "\U0001f600", id="one rare character in a long string"),
    pytest.param(["a" * 50 + "\U0001f600"] * 500, id="one rare character in many strings"),
    pytest.param("a" * 30_000, id="one long string"),
]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_text_weighs_no_less_than_it_takes_once_it_is_decoded(shape: Any) -> None:
    text = msgspec.json.encode(shape)
    assert taken(lambda: msgspec.json.decode(text)) <= text_weight(text)


def test_a_rare_character_that_is_written_in_plain_ones_is_one() -> None:
    text = b'"' + b"a" * 30_000 + b'\\ud83d\\ude00"'
    assert 4 * 30_000 <= taken(lambda: msgspec.json.decode(text)) <= text_weight(text)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_machine_weighs_no_less_than_it_takes(shape: Any) -> None:
    text = msgspec.json.encode(machine("one", shape=shape))
    found = codec.decode(MACHINES, text)
    assert taken(lambda: codec.decode(MACHINES, text)) <= object_weight(found)


def test_what_is_not_decoded_weighs_nothing() -> None:
    plain, more = machine("one"), machine("one")
    more["metadata"]["managedFields"] = [{"manager": "m" * 5000}]
    assert object_weight(codec.decode(MACHINES, msgspec.json.encode(plain))) == object_weight(
        codec.decode(MACHINES, msgspec.json.encode(more))
    )


def test_an_ordinary_machine_is_far_from_the_limit_of_an_object() -> None:
    ordinary = machine(
        "worker-0-abcde",
        cloudProviderSpec={"cpus": "2", "memory": "4Gi", "diskSize": "20Gi"}
        | {f"field{number}": "some value" for number in range(20)},
    )
    weight = object_weight(codec.decode(MACHINES, msgspec.json.encode(ordinary)))
    assert weight < 16 * KIB
    assert 20_000 * weight < ReadLimits().held, "as many as are remembered of one cluster have room"


@pytest.mark.parametrize("field", ["name", "namespace", "uid", "resource_version"])
def test_names_that_no_server_allows_are_told(field: str) -> None:
    most = LONGEST[field]
    meta = msgspec.structs.replace(Machine().metadata, **{field: "x" * (most + 1)})
    assert overlong(meta) == f"metadata.{field}: it has {most + 1} characters, more than {most}"
    assert overlong(Machine().metadata) == ""


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (4 * KIB, "4 KiB"), (256 * MIB, "256 MiB"), (2000 * MIB, "2000 MiB")],
)
def test_sizes_are_shown_with_their_unit(count: int, text: str) -> None:
    assert shown(count) == text


def test_a_bucket_lets_so_much_through_at_once_and_then_so_much_a_second() -> None:
    clock = HandClock()
    bucket = TokenBucket(rate=10, burst=50, clock=clock)
    assert [bucket.spend(25), bucket.spend(25), bucket.full] == [0.0, 0.0, False]
    assert bucket.spend(20) == pytest.approx(2.0)
    clock.at += 1.0
    assert bucket.wait() == pytest.approx(1.0)
    clock.at += 1.0
    assert bucket.wait() == 0.0
    clock.at += 1000.0
    assert bucket.full
    assert bucket.spend(51) == pytest.approx(0.1), "what was not spent in a thousand seconds is not kept"


@pytest.mark.parametrize(("rate", "burst"), [(0, 1), (1, 0), (-1, 1)])
def test_a_bucket_that_lets_nothing_through_is_none(rate: float, burst: float) -> None:
    with pytest.raises(ValueError, match="both are more than nothing"):
        TokenBucket(rate=rate, burst=burst, clock=HandClock())
