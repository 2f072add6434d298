"""The controller runtime beside a plain kopf operator that does the same."""
