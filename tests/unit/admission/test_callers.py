"""Who speaks for which cluster."""

from __future__ import annotations

import base64

import pytest

from tests.unit.admission.builders import FakeApi
from ullage.admission.callers import BadKey, Caller, Callers, path_of, read_key
from ullage.kube.builtin.core import CONFIG_MAPS
from ullage.kube.review import Decision, Hook, Review, Target

NAME = ("ullage-system", "ullage-webhook-callers")


def everybody(cluster: str) -> bool:
    return True


def test_a_token_is_the_same_in_all_replicas_and_another_for_every_cluster_and_key() -> None:
    first, again, other = (Callers(key * 32, everybody) for key in (b"a", b"a", b"b"))
    assert first.caller("far") == again.caller("far")
    tokens = {callers.caller(name).token for callers in (first, other) for name in ("far", "near")}
    assert (len(tokens), {len(token) for token in tokens}) == (4, {64})


def test_a_token_does_not_show_where_a_caller_is_shown() -> None:
    caller = Callers(b"k" * 32, everybody).caller("far")
    assert repr(caller) == "Caller(cluster='far')"


def test_the_path_of_a_hook_tells_cluster_and_token() -> None:
    async def answer(review: Review) -> Decision:
        return Decision.allow()

    hook = Hook(name="machines", phase="validate", targets=(Target.of(CONFIG_MAPS, "CREATE"),), answer=answer)
    assert path_of(hook) == "/hooks/machines"
    assert path_of(hook, Caller("far", "abc")) == "/hooks/machines/clusters/far/abc"


async def test_the_key_is_made_once_and_shared() -> None:
    api = FakeApi()
    first = await read_key(api.client, namespace=NAME[0], name=NAME[1], new=lambda size: b"x" * size)
    second = await read_key(api.client, namespace=NAME[0], name=NAME[1], new=lambda size: b"y" * size)
    assert first == second == b"x" * 32


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        pytest.param({}, "it has no key that can be read", id="no key"),
        pytest.param({"key": "?"}, "it has no key that can be read", id="a key that is no base64"),
        pytest.param(
            {"key": base64.b64encode(b"short").decode()}, "its key has 5 bytes, and needs 32", id="a key that is short"
        ),
    ],
)
async def test_a_key_that_cannot_be_used_is_not_replaced_silently(data: dict[str, str], problem: str) -> None:
    api = FakeApi()
    api.objects["Secret", NAME[1]] = {"metadata": {"name": NAME[1], "namespace": NAME[0], "resourceVersion": "1"}, "data": data}
    with pytest.raises(BadKey, match=f"secret {NAME[0]}/{NAME[1]}: {problem}"):
        await read_key(api.client, namespace=NAME[0], name=NAME[1], new=lambda size: b"y" * size)
