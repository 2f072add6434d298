"""Which webhooks a request concerns."""

from __future__ import annotations

import pytest

from tests.unit.standalone.apiserver.admission.webhook_server import (
    DEPLOYMENTS,
    HOOKS,
    NAMESPACE,
    NAMESPACES,
    NODES,
    OLD_WIDGETS,
    WIDGET,
    World,
    allow,
    attributes,
    rule,
)
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import ApiError


@pytest.mark.parametrize(
    ("hook", "attrs", "asked"),
    [
        pytest.param({"rules": [rule(["configmaps"])]}, {}, True, id="the resource itself"),
        pytest.param({"rules": [rule(["configmaps/*"])]}, {}, True, id="a resource with all its parts"),
        pytest.param({"rules": [rule(["*"])]}, {}, True, id="any resource"),
        pytest.param({"rules": [rule(["*"])]}, {"resource": DEPLOYMENTS, "subresource": "scale"}, False, id="but no part"),
        pytest.param({"rules": [rule(["*/scale"])]}, {"resource": DEPLOYMENTS, "subresource": "scale"}, True, id="any scale"),
        pytest.param(
            {"rules": [rule(["deployments/*"])]}, {"resource": DEPLOYMENTS, "subresource": "status"}, True, id="its parts"
        ),
        pytest.param({"rules": [rule(["*/status"])]}, {}, False, id="a part that is not meant"),
        pytest.param({"rules": [rule(["pods"])]}, {}, False, id="another resource"),
        pytest.param({"rules": [rule(["*/*"], operations=["UPDATE"])]}, {}, False, id="another operation"),
        pytest.param({"rules": [rule(["*/*"], apiGroups=["apps"])]}, {}, False, id="another group"),
        pytest.param({"rules": [rule(["*/*"], apiVersions=["v2"])]}, {}, False, id="another version"),
        pytest.param({"rules": [rule(["*/*"], scope="Cluster")]}, {}, False, id="another scope"),
        pytest.param(
            {"rules": [rule(["*/*"], scope="Cluster")]}, {"resource": NODES, "namespace": ""}, True, id="cluster scope"
        ),
        pytest.param(
            {"rules": [rule(["*/*"], scope="Namespaced")]}, {"resource": NAMESPACES}, False, id="a namespace is not in one"
        ),
        pytest.param({"rules": []}, {}, False, id="no rules"),
        pytest.param({"namespaceSelector": {"matchLabels": {"env": "prod"}}}, {}, True, id="its namespace is chosen"),
        pytest.param({"namespaceSelector": {"matchLabels": {"env": "dev"}}}, {}, False, id="its namespace is not chosen"),
        pytest.param(
            {"namespaceSelector": {"matchExpressions": [{"key": "env", "operator": "NotIn", "values": ["prod"]}]}},
            {},
            False,
            id="its namespace is spared",
        ),
        pytest.param(
            {"namespaceSelector": {"matchLabels": {"env": "dev"}}},
            {"resource": NODES, "namespace": ""},
            True,
            id="no namespace",
        ),
        pytest.param(
            {"namespaceSelector": {"matchLabels": {"env": "dev"}}},
            {"resource": NAMESPACES, "name": "team", "object": {"metadata": {"labels": {"env": "dev"}}}, "old": NAMESPACE},
            True,
            id="a namespace is chosen by its new labels",
        ),
        pytest.param(
            {"namespaceSelector": {"matchLabels": {"env": "prod"}}},
            {"resource": NAMESPACES, "operation": "DELETE", "name": "team", "object": None, "old": NAMESPACE},
            True,
            id="a namespace that goes is chosen by the labels it has",
        ),
        pytest.param({"objectSelector": {"matchLabels": {"a": "b"}}}, {}, False, id="an object without the label"),
        pytest.param(
            {"objectSelector": {"matchLabels": {"a": "b"}}},
            {"old": {"metadata": {"labels": {"a": "b"}}}},
            True,
            id="an object that loses the label",
        ),
        pytest.param(
            {"objectSelector": {"matchLabels": {"a": "b"}}}, {"object": None, "operation": "CONNECT"}, False, id="no object"
        ),
        pytest.param({}, {"resource": HOOKS, "namespace": ""}, False, id="webhooks do not guard webhooks"),
        pytest.param({"matchConditions": [{"name": "c", "expression": 'object.data.x == "y"'}]}, {}, True, id="a condition"),
        pytest.param(
            {"matchConditions": [{"name": "c", "expression": "oldObject != null"}]}, {}, False, id="a false condition"
        ),
        pytest.param(
            {"matchConditions": [{"name": "c", "expression": 'request.userInfo.username == "jane" && !request.dryRun'}]},
            {},
            True,
            id="a condition on the request",
        ),
        pytest.param(
            {
                "matchConditions": [
                    {"name": "c", "expression": "object.nope.x == 1"},
                    {"name": "d", "expression": "false"},
                ]
            },
            {},
            False,
            id="a false condition outweighs a broken one",
        ),
        pytest.param(
            {"matchConditions": [{"name": "c", "expression": "object.nope.x == 1"}], "failurePolicy": "Ignore"},
            {},
            False,
            id="a broken condition, ignored",
        ),
        pytest.param(
            {"rules": [rule(["widgets"], apiVersions=["v1"])], "matchPolicy": "Exact"},
            {"resource": OLD_WIDGETS, "object": WIDGET},
            False,
            id="the exact version",
        ),
    ],
)
async def test_who_is_asked(world: World, hook: Json, attrs: Json, asked: bool) -> None:
    world.validate_with(world.hook("h", allow, **hook))
    world.mutate_with(world.hook("h", allow, **hook))
    await world.webhooks.mutate(attributes(**attrs))
    await world.webhooks.validate(attributes(**attrs))
    assert world.asked() == (["h", "h"] if asked else [])


async def test_a_broken_condition_refuses(world: World) -> None:
    world.validate_with(world.hook("h", allow, matchConditions=[{"name": "c", "expression": "object.nope.x == 1"}]))
    with pytest.raises(ApiError) as raised:
        await world.webhooks.validate(attributes())
    assert (raised.value.code, raised.value.reason) == (403, "Forbidden")
    assert raised.value.message == (
        "configmaps \"a\" is forbidden: expression 'object.nope.x == 1' resulted in error: no such key: nope"
    )
