"""What each endpoint of an object cannot write."""

from __future__ import annotations

import pytest

from ullage.standalone.apiserver.fields.fieldset import EMPTY, LEAF
from ullage.standalone.apiserver.handlers.endpoints import reset_fields
from ullage.standalone.apiserver.kinds.resources import Resource, Subresource
from ullage.standalone.apiserver.objects import Json


@pytest.mark.parametrize(
    ("plural", "group", "custom", "subresource", "fields"),
    [
        pytest.param("pods", "", False, "", {"f:status": LEAF}, id="the main endpoint cannot write status"),
        pytest.param("pods", "", False, "status", {"f:spec": LEAF}, id="the status endpoint cannot write spec"),
        pytest.param(
            "deployments", "apps", False, "status", {"f:metadata": {"f:labels": LEAF}, "f:spec": LEAF}, id="nor labels of some"
        ),
        pytest.param("things", "x.y", True, "status", {"f:metadata": LEAF, "f:spec": LEAF}, id="nor metadata of custom kinds"),
        pytest.param("pods", "", False, "binding", EMPTY, id="other endpoints write what they will"),
    ],
)
def test_reset_fields(plural: str, group: str, custom: bool, subresource: str, fields: Json) -> None:
    status = {"status": Subresource("status", "X", ())}
    kind = Resource(group, "v1", plural, "x", "X", True, subresources=status, custom={} if custom else None)
    assert reset_fields(kind, subresource) == fields
