"""Placeholder while the kinds' strategies are written."""

from dataclasses import replace
from ullage.standalone.apiserver.names import path_segment
from ullage.standalone.apiserver.strategies.base import Strategy

GENERIC = Strategy()


def strategy(group: str, kind: str) -> Strategy:
    return replace(GENERIC, name_rule=path_segment)
