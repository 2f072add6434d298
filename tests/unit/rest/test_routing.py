"""Routes as values: what is declared wrongly is told at once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.rest.builders import ACCESS, THINGS, route
from ullage.rest.routing import Table


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        pytest.param({"name": "Not a label"}, "a name is lower-case letters", id="its name"),
        pytest.param({"paths": ()}, "it has no path", id="no path"),
        pytest.param({"paths": ("v1/{namespace}",)}, "is no path such as", id="a path without a slash"),
        pytest.param({"paths": ("/v1/{Namespace}",)}, "is no path such as", id="a part in capitals"),
        pytest.param({"paths": ("/v1/{namespace}/",)}, "is no path such as", id="a slash at the end"),
        pytest.param({"paths": ("/v1/{namespace}", "/v2/{name}")}, "do not name the same things", id="two paths of two things"),
        pytest.param({"paths": ("/v1/{name}",)}, "no {namespace} in its path", id="rights in no namespace"),
        pytest.param({"actions": ("a=b",)}, "is no action", id="an action that cannot be sent"),
    ],
)
def test_a_route_that_cannot_be_is_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem.replace("{", r"\{")):
        route(**fields)


@pytest.mark.parametrize(
    ("path", "names"),
    [
        (b"/v1/things/a/b", {"namespace": "a", "name": "b"}),
        (b"/v1/things/a/b%2Fc", {"namespace": "a", "name": "b/c"}),
        (b"/v1/things/a/%C3%BC", {"namespace": "a", "name": "ü"}),
        (b"/v1/things/a/\xff", {"namespace": "a", "name": "ÿ"}),
        (b"/v1/things/a", None),
        (b"/v1/things/a/b/c", None),
        (b"/v1/things/a/", None),
        (b"/V1/things/a/b", None),
        (b"", None),
        (b"*", None),
    ],
)
def test_a_path_is_split_before_it_is_decoded(path: bytes, names: dict[str, str] | None) -> None:
    found = Table.of([route()]).find(path)
    assert (found and found.names) == names


def test_the_kind_decides_where_rights_are_asked_for() -> None:
    assert ACCESS.kind is THINGS
    assert Table.of([route()]).places[0].actions == ("set", "put")
