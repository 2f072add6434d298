"""VirtualMachineRestores: `perform` carries them out."""
