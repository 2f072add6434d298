"""What a log line looks like, and what never gets into one."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from ullage import logs
from ullage.errors import BadInput

TOKEN = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl"


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    """A logger whose process is configured anew by the test, and as before afterwards."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield logging.getLogger("ullage.kube.cache")
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)


def written(format: str, log: logging.Logger, message: str, **extra: Any) -> str:
    stream = io.StringIO()
    logs.configure("controller", format=format, stream=stream)
    log.info(message, extra=extra)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("extra", "end"),
    [
        pytest.param({"kind": "pods", "objects": 3}, "kind was read kind=pods objects=3\n", id="words stand as they are"),
        pytest.param({"error": "no such file"}, 'kind was read error="no such file"\n', id="a sentence is quoted"),
        pytest.param({"key": ""}, 'kind was read key=""\n', id="an empty value is visible"),
        pytest.param({"error": 'a\nb="c"'}, 'kind was read error="a\\nb=\\"c\\""\n', id="no value can forge a line"),
        pytest.param({"token": "hunter2"}, "kind was read token=(hidden)\n", id="a secret is told by its name"),
        pytest.param(
            {"error": f"Bearer {TOKEN} is bad"}, 'kind was read error="(hidden) is bad"\n', id="a bearer token is cut out"
        ),
        pytest.param({"error": f"not:{TOKEN}"}, "kind was read error=not:(hidden)\n", id="a bare web token is cut out"),
    ],
)
def test_a_text_record_is_one_line_of_words(log: logging.Logger, extra: dict[str, Any], end: str) -> None:
    line = written("text", log, "kind was read", **extra)
    moment, level, component, rest = line.split(" ", 3)
    assert (level, component, rest) == ("INFO", "controller", f"kube.cache: {end}")
    assert moment.endswith("Z")
    assert len(moment) == len("2026-01-01T00:00:00.000Z")


def test_a_json_record_is_one_object_with_the_extras_as_members(log: logging.Logger) -> None:
    told = json.loads(written("json", log, "kind was read", kind="pods", objects=3, level="odd", password="x"))
    moment = told.pop("time")
    assert moment.endswith("Z")
    assert told == {
        "level": "info",
        "component": "controller",
        "logger": "ullage.kube.cache",
        "message": "kind was read",
        "kind": "pods",
        "objects": 3,
        "level_": "odd",
        "password": "(hidden)",
    }


@pytest.mark.parametrize("format", ["text", "json"])
def test_a_traceback_is_kept_without_what_is_secret_in_it(log: logging.Logger, format: str) -> None:
    stream = io.StringIO()
    logs.configure("webhook", format=format, stream=stream)
    try:
        raise ValueError(f"Authorization: Bearer {TOKEN}")
    except ValueError:
        log.exception("review failed")
    assert "Traceback" in stream.getvalue()
    assert "ValueError" in stream.getvalue()
    assert TOKEN not in stream.getvalue()
    assert stream.getvalue().count("\n") == (1 if format == "json" else stream.getvalue().count("\n"))


def test_what_is_below_the_level_is_not_written(log: logging.Logger) -> None:
    stream = io.StringIO()
    logs.configure("webhook", level="warning", stream=stream)
    log.info("not told")
    log.warning("told")
    assert [line.split(": ")[1] for line in stream.getvalue().splitlines()] == ["told"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        pytest.param({"format": "xml"}, "--log-format xml: one of text, json is allowed", id="a format that there is not"),
        pytest.param(
            {"level": "loud"}, "--log-level loud: one of debug, info, warning, error is allowed", id="a level that there is not"
        ),
    ],
)
def test_bad_options_are_named(options: dict[str, str], text: str) -> None:
    with pytest.raises(BadInput) as refused:
        logs.configure("webhook", **options)  # type: ignore[arg-type]  # as typed by a person
    assert str(refused.value) == text
