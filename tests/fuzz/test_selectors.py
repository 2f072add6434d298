"""Selectors and the other parameters of lists."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from hypothesis import strategies as st

from .documents import config_map, texts
from .harness import Server, for_a_while

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
MAPS = "/api/v1/namespaces/default/configmaps"

symbols = st.sampled_from(
    ("a", "b", "=", "==", "!=", "!", ",", "(", ")", " in ", " notin ", "<", ">", " ", "\\", "a/b", "1", "")
)
fields = st.sampled_from(("metadata.name", "metadata.namespace", "spec.nodeName", "=", "!=", "==", ",", "\\", "a", ""))
selectors = st.one_of(st.lists(symbols, max_size=14).map("".join), st.text(max_size=10))
field_selectors = st.one_of(st.lists(fields, max_size=10).map("".join), st.text(max_size=10))
parameters = st.dictionaries(
    st.sampled_from(("limit", "continue", "resourceVersion", "resourceVersionMatch", "timeoutSeconds", "timeout", "pretty")),
    st.one_of(texts, st.sampled_from(("Exact", "NotOlderThan", "1s", "1ns", "-1"))),
    max_size=3,
)


def test_selectors(api: Server) -> None:
    made = api.ask("POST", MAPS, json.dumps(config_map("chosen")).encode())
    assert made.accepted

    def check(asked: tuple[str, str, dict[str, str]]) -> None:
        labels, chosen, more = asked
        query = {"labelSelector": labels, "fieldSelector": chosen} | more
        written = "&".join(f"{key}={quote(value, errors='replace')}" for key, value in query.items())
        answer = api.ask("GET", f"{MAPS}?{written}")
        if answer.code == 200:
            assert {item["metadata"]["name"] for item in answer.json["items"]} <= {"chosen", "kube-root-ca.crt"}

    try:
        for_a_while(st.tuples(selectors, field_selectors, parameters), check)
    finally:
        api.sound(MAPS, made.json)
