"""machine-controller, which makes the Machines of KKP's user clusters, with its plugins. There are no packages of it.

`python -m tools.peers.machine_controller.build` prints the directory that holds them.

It is built in a copy of its module with two edits. The provider anexia goes, since a library of it cannot be had from module
mirrors. The instances of the provider `fake` get a provider ID and run. They still have no address, without which
machine-controller looks for no Node: `tests/peers/machine_controller.py` writes into each Machine which Node it is.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tools.peers.go_programs import Edit, GoPrograms, print_place

NAME: Final = "machine-controller"
_MODULE: Final = "github.com/kubermatic/machine-controller"
_PROVIDERS: Final = "pkg/cloudprovider"
_PLUGINS: Final = ("amzn2", "centos", "flatcar", "rhel", "rockylinux", "ubuntu")  # it does not start without all of them
_NO_ANEXIA: Final = (
    (r'\n[^\n]*provider/anexia"', ""),
    (r"\n[^\n]*CloudProviderAnexia: func[^\n]*\n[^\n]*\n[^\n]*\},", ""),
)
_FAKE: Final = (
    (r"(?<=type CloudProviderInstance struct)\{\}", "{ uid types.UID }"),
    (r'(?<=\) ProviderID\(\) string \{\n\treturn )""', '"fake:///" + string(f.uid)'),
    (r"instance\.StatusUnknown", "instance.StatusRunning"),
    (r"(?<=\) Get\()(.*), _ \*clusterv1alpha1.Machine", r"\1, machine *clusterv1alpha1.Machine"),
    (r"(?<=\) Create\()(.*), _ \*clusterv1alpha1.Machine", r"\1, machine *clusterv1alpha1.Machine"),
    (r"return CloudProviderInstance\{\}", "return CloudProviderInstance{uid: machine.UID}"),
)
MACHINE_CONTROLLER: Final = GoPrograms(
    what=NAME,
    module=Path(__file__).parent,
    cache=NAME,
    packages={NAME: "./cmd/machine-controller", **{f"{NAME}-userdata-{one}": f"./cmd/userdata/{one}" for one in _PLUGINS}},
    time="some 7 minutes",
    copied=_MODULE,
    edits=(
        Edit(f"{_PROVIDERS}/provider/anexia"),
        Edit(f"{_PROVIDERS}/provider.go", _NO_ANEXIA),
        Edit(f"{_PROVIDERS}/provider/fake/provider.go", _FAKE),
    ),
)


def machine_controller(environ: Mapping[str, str]) -> Path:
    """The directory with the program, and with the plugins that it looks for beside itself."""
    return MACHINE_CONTROLLER.place(environ)


if __name__ == "__main__":
    sys.exit(print_place(MACHINE_CONTROLLER.place))
