"""Events on objects, de-duplicated and rate limited."""
