"""The three patch formats: each computes a new object from the live one and leaves the live one alone."""
