"""Compares an answer with what a row of a table expects of it."""

from __future__ import annotations

import re

from .api import Answer, Api
from .requests_table.case import Case, Check, dig, fill


def check_answer(case: Case, answer: Answer, saved: dict[str, str]) -> None:
    code, reason = case.expect
    assert (answer.code, answer.reason if reason is not None else None) == (code, reason), answer.raw[:1000]
    if code >= 400 and reason:
        check_status_shape(answer)
    if case.text is not None:
        assert answer.raw.decode() == fill(case.text, saved)
    if case.message is not None:
        pattern = ".*".join(re.escape(part) for part in fill(case.message, saved).split("…"))
        assert re.fullmatch(pattern, answer.message, re.DOTALL), answer.message
    if case.causes is not None:
        found = [[cause.get("field", ""), cause.get("reason", "")] for cause in answer.causes]
        assert sorted(found) == sorted(fill(case.causes, saved)), "causes come in any order"
    if case.warnings is not None:
        assert list(answer.warnings) == fill(case.warnings, saved)
    check_values(answer, fill(case.has, saved))


def check_status_shape(answer: Answer) -> None:
    """Every failure is a whole Status: clients read its members without asking whether they are there."""
    status = answer.obj
    assert (status["kind"], status["apiVersion"], status["status"]) == ("Status", "v1", "Failure")
    assert status["metadata"] == {}
    assert status["code"] == answer.code
    assert answer.headers["content-type"] == "application/json"


def check_values(answer: Answer, expected: dict[str, object]) -> None:
    found = {path: dig(answer.json, path) for path in expected}
    assert found == expected, answer.raw[:1500]


def check_stored(api: Api, check: Check, saved: dict[str, str]) -> None:
    answer = api.get(fill(check.path, saved))
    assert answer.code == check.code, answer.raw[:500]
    check_values(answer, fill(check.has, saved))
