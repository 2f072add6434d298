"""From the number of clusters that a quota allows to the limit of their ledger."""
