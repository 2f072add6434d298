"""How a process of ours logs: one record is one line on standard error, for people (text) or for programs (json).

Messages are constant; what varies comes as `extra=` and is shown as key=value, or as members of the JSON object. Nothing that
looks like a credential gets out, whoever put it in: a bearer token in somebody's error text is as bad as in ours.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from ullage.errors import BadInput

FORMATS: Final = ("text", "json")
LEVELS: Final = ("debug", "info", "warning", "error")

_PLAIN: Final = re.compile(r"[^\s\"'=\\\x00-\x1f\x7f]+")
_CREDENTIAL: Final = re.compile(r"(?i:\b(bearer|basic)\s+)[\w.~+/=-]{8,}|\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*")
_SECRET_NAMES: Final = re.compile(r"(?i)token|password|passwd|secret|authorization|private")
_KNOWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}
HIDDEN: Final = "(hidden)"


def configure(component: str, *, format: str = "text", level: str = "info", stream: TextIO | None = None) -> None:
    """Takes over the process' logging. Raises BadInput for a format or a level that there is not."""
    if format not in FORMATS:
        raise BadInput("--log-format", format, f"one of {', '.join(FORMATS)} is allowed")
    if level not in LEVELS:
        raise BadInput("--log-level", level, f"one of {', '.join(LEVELS)} is allowed")
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines(component) if format == "json" else TextLines(component))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.captureWarnings(True)


class TextLines(logging.Formatter):
    """`2026-01-01T12:00:00.123Z INFO controller kube.cache: kind was read kind=pods objects=3`"""

    def __init__(self, component: str) -> None:
        super().__init__()
        self._component = component

    def format(self, record: logging.LogRecord) -> str:
        name = record.name.removeprefix("ullage.")
        head = f"{_moment(record)} {record.levelname} {self._component} {name}: {_one_line(record.getMessage())}"
        line = " ".join((head, *(f"{key}={_quoted(value)}" for key, value in _extras(record).items())))
        trace = _trace(self, record)
        return _without_credentials(f"{line}\n{trace}" if trace else line)


class JsonLines(logging.Formatter):
    """One JSON object for each record; a traceback is a member of it."""

    def __init__(self, component: str) -> None:
        super().__init__()
        self._component = component

    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, Any] = {
            "time": _moment(record),
            "level": record.levelname.lower(),
            "component": self._component,
            "logger": record.name,
            "message": record.getMessage(),
        }
        for key, value in _extras(record).items():
            told[f"{key}_" if key in told else key] = value
        if trace := _trace(self, record):
            told["traceback"] = trace
        return _without_credentials(json.dumps(told, default=str, ensure_ascii=False))


def _moment(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{int(record.msecs):03d}Z"


def _extras(record: logging.LogRecord) -> dict[str, Any]:
    return {key: HIDDEN if _SECRET_NAMES.search(key) else value for key, value in vars(record).items() if key not in _KNOWN}


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    parts = [formatter.formatException(record.exc_info)] if record.exc_info and record.exc_info[0] else []
    return "\n".join(parts + ([formatter.formatStack(record.stack_info)] if record.stack_info else []))


def _quoted(value: object) -> str:
    """A value as one word: quoted where it would not be one, so that no value can forge a line or another key."""
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def _one_line(text: str) -> str:
    return text if text.isprintable() else json.dumps(text, ensure_ascii=False)


def _without_credentials(text: str) -> str:
    return _CREDENTIAL.sub(HIDDEN, text)
