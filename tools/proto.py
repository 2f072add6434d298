"""Writes the modules that are generated from .proto files, beside them: messages, calls, and their types for mypy.

`make proto` runs this, and so does `make verify`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from grpc_tools import protoc

SOURCE = Path(__file__).parent.parent / "src"
FILES = (
    "ullage/snapshots/backends/csi/csi.proto",
    "ullage/engines/protocol/controller.proto",
    "ullage/engines/protocol/replica.proto",
    "ullage/engines/protocol/syncagent.proto",
    "ullage/engines/protocol/host.proto",
)


def main() -> int:
    programs = Path(sys.executable).parent  # that of a virtual environment may not be on the PATH
    plugins = [f"--plugin={name}={programs / name}" for name in ("protoc-gen-mypy", "protoc-gen-mypy_grpc")]
    outputs = [f"--{kind}_out={options}{SOURCE}" for kind, options in _KINDS.items()]
    return int(protoc.main(["protoc", f"-I{SOURCE}", f"-I{_well_known()}", *plugins, *outputs, *FILES]))


_KINDS = {"python": "", "grpc_python": "", "mypy": "quiet:", "mypy_grpc": "quiet:"}


def _well_known() -> Path:
    """The .proto files that come with protobuf itself: timestamps and the like."""
    return Path(protoc.__file__).parent / "_proto"


if __name__ == "__main__":
    sys.exit(main())
