"""The recorded launcher pods are those that KubeVirt's own code renders, of the version that the records name."""

from __future__ import annotations

import json
import os

import pytest

from tests.e2e.built import built
from tools.peers.kubevirt.build import kubevirt
from tools.peers.kubevirt.record import RECORDED, VERSION, differences, render

Line = dict[str, object]


@pytest.mark.peers
@pytest.mark.timeout(1200)  # the first time includes the build
def test_kubevirt_renders_what_is_recorded() -> None:
    built(kubevirt)
    rendered = render((RECORDED / "cases.jsonl").read_text(), os.environ)
    assert differences((RECORDED / f"pods_{VERSION}.jsonl").read_text().splitlines(), rendered) == []


@pytest.mark.parametrize(
    ("recorded", "rendered", "expected"),
    [
        pytest.param([{"name": "a", "limits": {"cpu": "1"}}], [{"name": "a", "limits": {"cpu": "1"}}], [], id="the same"),
        pytest.param(
            [{"name": "a", "limits": {"cpu": "1"}}],
            [{"name": "a", "limits": {"cpu": "2"}}],
            ["a: limits {'cpu': '1'} is now {'cpu': '2'}"],
            id="another amount",
        ),
        pytest.param(
            [{"name": "a"}],
            [{"name": "a", "unlimited": ["compute"]}],
            ["a: unlimited None is now ['compute']"],
            id="a new field",
        ),
        pytest.param([{"name": "a"}], [], ["1 lines are recorded, 0 were rendered"], id="lines that are missing"),
    ],
)
def test_what_differs_is_named_by_case_and_field(recorded: list[Line], rendered: list[Line], expected: list[str]) -> None:
    assert differences(list(map(json.dumps, recorded)), list(map(json.dumps, rendered))) == expected
