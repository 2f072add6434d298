"""Writes `docs/reference`: the Configuration with its defaults and the docs of its fields, and its JSON schema.

`make verify` runs this.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ullage.app.configuration.printing import FILE_NAME, schema_text, to_yaml
from ullage.app.configuration.types import DEFAULT

FOLDER = Path(__file__).parent.parent / "docs" / "reference"


def files() -> dict[str, str]:
    """What is in the folder, by name."""
    return {"configuration.yaml": to_yaml(DEFAULT), FILE_NAME: schema_text()}


def main() -> int:
    FOLDER.mkdir(exist_ok=True)
    for name, text in files().items():
        (FOLDER / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
