"""Gives projects without a quota the default one, and takes it away again."""
