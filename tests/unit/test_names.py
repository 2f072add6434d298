"""What may be the name of an object or of a namespace."""

from __future__ import annotations

import pytest

from ullage.names import is_label, is_subdomain


@pytest.mark.parametrize(
    ("text", "label", "subdomain"),
    [
        pytest.param("a-1", True, True, id="letters, digits and hyphens"),
        pytest.param("a.b", False, True, id="dots part labels"),
        pytest.param("a..b", False, False, id="one dot at a time"),
        pytest.param("a.-b", False, False, id="each label begins with a letter or digit"),
        pytest.param("", False, False, id="nothing"),
        pytest.param("a\n", False, False, id="a line's end"),
        pytest.param("A", False, False, id="a capital"),
        pytest.param("é", False, False, id="a letter of another alphabet"),
        pytest.param("a" * 63, True, True, id="63 characters"),
        pytest.param("a" * 64, False, True, id="64 characters"),
        pytest.param("a" * 253, False, True, id="253 characters"),
        pytest.param("a" * 254, False, False, id="254 characters"),
    ],
)
def test_what_is_a_name(text: str, label: bool, subdomain: bool) -> None:
    assert (is_label(text), is_subdomain(text)) == (label, subdomain)
