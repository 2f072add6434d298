"""Query parameters: what they mean, and the words with which bad ones are refused."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.unit.standalone.apiserver.served_kinds import builtins
from tests.unit.standalone.apiserver.server_kit import request
from ullage.standalone.apiserver.request.continuation import ContinueToken
from ullage.standalone.apiserver.request.list_options import list_options
from ullage.standalone.apiserver.request.parameters import integer, revision
from ullage.standalone.apiserver.request.write_options import write_options
from ullage.standalone.apiserver.status import ApiError

MAPS = next(resource for resource in builtins() if resource.plural == "configmaps")
PODS = next(resource for resource in builtins() if resource.plural == "pods")


def refused(call: Any, *args: Any, **kwargs: Any) -> tuple[int, str]:
    with pytest.raises(ApiError) as caught:
        call(*args, **kwargs)
    return caught.value.code, caught.value.message


class TestNumbers:
    @pytest.mark.parametrize(
        ("text", "value"), [("", 0), ("5", 5), ("%2B5", 5), ("-5", -5), ("007", 7), ("9223372036854775807", 2**63 - 1)]
    )
    def test_integers(self, text: str, value: int) -> None:
        assert integer(request("GET", f"/api/v1/pods?limit={text}"), "limit") == value

    @pytest.mark.parametrize(
        ("text", "shown", "why"),
        [
            pytest.param("x", "x", "invalid syntax", id="a word"),
            pytest.param("%205", " 5", "invalid syntax", id="a space before it"),
            pytest.param("1_000", "1_000", "invalid syntax", id="underscores"),
            pytest.param("%D9%A1", "١", "invalid syntax", id="digits of another script"),
            pytest.param("1.0", "1.0", "invalid syntax", id="a fraction"),
            pytest.param("9223372036854775808", "9223372036854775808", "value out of range", id="one too many"),
            pytest.param("9" * 5000, "9" * 5000, "value out of range", id="five thousand digits"),
        ],
    )
    def test_what_is_no_integer(self, text: str, shown: str, why: str) -> None:
        found = refused(integer, request("GET", f"/api/v1/pods?limit={text}"), "limit")
        assert found == (400, f'strconv.ParseInt: parsing "{shown}": {why}')

    @pytest.mark.parametrize(("text", "value"), [("", 0), ("0", 0), ("12", 12), ("18446744073709551615", 2**64 - 1)])
    def test_versions(self, text: str, value: int) -> None:
        assert revision(text) == value

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("x", "invalid syntax"),
            ("-1", "invalid syntax"),
            ("²", "invalid syntax"),
            ("18446744073709551616", "value out of range"),
            ("9" * 5000, "value out of range"),
        ],
    )
    def test_what_is_no_version(self, text: str, why: str) -> None:
        code, message = refused(revision, text)
        assert code == 500
        assert message.endswith(f": {why}")


def encoded(**body: Any) -> str:
    whole = {"v": "meta.k8s.io/v1", "rv": 5, "start": "a/b\0", **body}
    return base64.urlsafe_b64encode(json.dumps(whole).encode()).rstrip(b"=").decode()


class TestTokens:
    @pytest.mark.parametrize("start", [("a", "b"), ("", "b"), ("a-b", "c.d"), ("a", "é")])
    def test_they_come_back_as_they_were(self, start: tuple[str, str]) -> None:
        assert ContinueToken.decode(ContinueToken(7, start).encode()) == ContinueToken(7, start)

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            pytest.param("!", "illegal base64 data at input byte 0", id="not base64"),
            pytest.param(encoded(v="v2"), "server does not recognize this encoded version v2", id="another format"),
            pytest.param(encoded(rv=0), "incorrect encoded start resourceVersion (version meta.k8s.io/v1)", id="no version"),
            pytest.param(encoded(start=""), "encoded start key empty (version meta.k8s.io/v1)", id="no key"),
            pytest.param(encoded(start="../x"), "../x", id="a key that climbs"),
            pytest.param(encoded(rv=1e300), "json: cannot unmarshal the token", id="a version that is no integer"),
            pytest.param(encoded(rv="7" * 5_000), "json: cannot unmarshal the token", id="a version of many digits"),
            pytest.param(
                base64.urlsafe_b64encode(b'{"v":' + b"[" * 100_000).rstrip(b"=").decode(),
                "json: cannot unmarshal the token",
                id="a token that nests",
            ),
        ],
    )
    def test_bad_ones_are_refused(self, text: str, why: str) -> None:
        assert refused(ContinueToken.decode, text) == (400, f"invalid continue token: continue key is not valid: {why}")


class TestLists:
    def test_all_of_them(self) -> None:
        query = "limit=3&timeoutSeconds=9&resourceVersion=4&resourceVersionMatch=Exact&labelSelector=a%3Db"
        found = list_options(request("GET", f"/api/v1/namespaces/n/configmaps?{query}"), MAPS, watch=False)
        assert (found.limit, found.timeout, found.rv, found.match) == (3, 9, "4", "Exact")
        assert (found.filter.namespace, found.filter.name, found.filter.trivial) == ("n", "", False)

    def test_a_name_in_the_field_selector_is_a_key(self) -> None:
        found = list_options(request("GET", "/api/v1/configmaps?fieldSelector=metadata.name%3Dx"), MAPS, watch=False)
        assert found.filter.name == "x"
        assert [found.filter.has_key(key) for key in (("a", "x"), ("b", "x"), ("a", "y"))] == [True, True, False]

    @pytest.mark.parametrize(
        ("query", "watch", "code"),
        [
            ("resourceVersionMatch=Exact", False, 422),
            ("resourceVersion=0&resourceVersionMatch=Exact", False, 422),
            ("resourceVersion=1&resourceVersionMatch=Newest", False, 422),
            ("sendInitialEvents=true", False, 422),
            ("sendInitialEvents=true", True, 422),
            ("resourceVersion=1&resourceVersionMatch=NotOlderThan", True, 422),
            ("labelSelector=%3D%3D", False, 400),
            ("fieldSelector=spec.color%3Dred", False, 400),
            ("continue=%21", False, 400),
        ],
    )
    def test_bad_ones_are_refused(self, query: str, watch: bool, code: int) -> None:
        found, _ = refused(list_options, request("GET", f"/api/v1/configmaps?{query}"), MAPS, watch=watch)
        assert found == code

    def test_pods_can_be_chosen_by_their_node(self) -> None:
        found = list_options(request("GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1"), PODS, watch=False)
        assert found.filter.matches(b'{"metadata":{},"spec":{"nodeName":"n1"}}')
        assert not found.filter.matches(b'{"metadata":{},"spec":{}}')


class TestWrites:
    def test_the_manager_is_named_or_follows_from_the_program(self) -> None:
        named = write_options(request("POST", "/api/v1/pods?fieldManager=me", user_agent="kubectl/v1"), "CreateOptions")
        unnamed = write_options(request("POST", "/api/v1/pods", user_agent="kubectl/v1.36 (linux)"), "CreateOptions")
        assert (named.manager, unnamed.manager) == ("me", "kubectl")

    @pytest.mark.parametrize(
        ("agent", "manager"),
        [
            pytest.param(None, "unknown", id="no header"),
            pytest.param("", "unknown", id="an empty one"),
            pytest.param("/1.0", "unknown", id="a version of nothing"),
            pytest.param("a\tb/1", "ab", id="without what cannot be printed"),
            pytest.param("\u00e9" * 100, "\u00e9" * 64, id="128 bytes, and no half character"),
        ],
    )
    def test_a_program_that_does_not_say_its_name(self, agent: str | None, manager: str) -> None:
        asked = request("POST", "/api/v1/pods") if agent is None else request("POST", "/api/v1/pods", user_agent=agent)
        assert write_options(asked, "CreateOptions").manager == manager

    @pytest.mark.parametrize("query", ["dryRun=Some", "fieldValidation=Maybe", "fieldManager=" + "x" * 129])
    def test_bad_ones_are_refused_by_the_name_of_the_options(self, query: str) -> None:
        code, message = refused(write_options, request("POST", f"/api/v1/pods?{query}"), "CreateOptions")
        assert code == 422
        assert message.startswith('CreateOptions.meta.k8s.io "" is invalid')
