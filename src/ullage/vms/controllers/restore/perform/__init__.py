"""Carries restores out: `new_claim` and `machine_spec` say what is made, `rules` what the status says, `controller` does it."""
