"""Says on a namespace that more runs there than its share, for as long as that is so."""
