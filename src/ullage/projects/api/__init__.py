"""The kinds: `quotas` has ours, with the field names of KKP; `kkp` has KKP's own, `machines` those of machine-controller."""
