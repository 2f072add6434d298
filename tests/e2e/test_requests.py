"""The requests table, run row by row: each in a namespace of its own, so rows neither help nor harm each other."""

from __future__ import annotations

import time

import pytest

from .api import Api
from .checks import check_answer, check_stored
from .requests_table import CASES
from .requests_table.case import Case, Step, dig, fill

SETTLE_SECONDS = 10.0


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CASES])
def test_request(case: Case, api: Api, namespace: str) -> None:
    saved = {"ns": namespace}
    try:
        run_case(case, api, saved)
    finally:
        for step in case.cleanup:
            api.call(step.method, fill(step.path, saved), fill(step.body, saved), headers=step.headers)


def run_case(case: Case, api: Api, saved: dict[str, str]) -> None:
    for step in case.setup:
        run_step(api, step, saved)
    client = api if case.token is None else Api(api.plane, token=fill(case.token, saved))
    answer = client.call(case.method, fill(case.path, saved), fill(case.body, saved), headers=fill(case.headers, saved))
    deadline = time.monotonic() + SETTLE_SECONDS
    while case.eventually and answer.code != case.expect[0] and time.monotonic() < deadline:
        time.sleep(0.05)
        answer = client.call(case.method, fill(case.path, saved), fill(case.body, saved), headers=fill(case.headers, saved))
    check_answer(case, answer, saved)
    for check in case.then:
        check_stored(api, check, saved)


def run_step(api: Api, step: Step, saved: dict[str, str]) -> None:
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        answer = api.call(step.method, fill(step.path, saved), fill(step.body, saved), headers=fill(step.headers, saved))
        if all(dig(answer.json, path) == value for path, value in step.until.items()):
            break
        assert time.monotonic() < deadline, f"setup {step.path}: still {answer.raw[:300]!r}"
        time.sleep(0.05)
    assert answer.code < 300, f"setup {step.method} {step.path}: {answer.code} {answer.message}"
    for name, path in step.save.items():
        saved[name] = str(dig(answer.json, path))
