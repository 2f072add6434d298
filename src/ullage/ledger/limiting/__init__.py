"""Limits that hold from the moment that the request which sets them was answered: what is in force, as rules of a book.
Pure."""
