"""MachineDeployments of a user cluster."""
