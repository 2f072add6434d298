"""Says in the status of a quota what is used, and whether that is within its limits."""
