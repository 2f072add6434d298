"""What it costs to ask the ledger, beside core ResourceQuota, a webhook that does nothing, and no admission at all."""
