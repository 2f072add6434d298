"""VirtualMachineBackups: `take` makes them, and undoes them."""
