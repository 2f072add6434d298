"""Keeps the stamps of Machines true: signed over the uid, and never less than they counted before."""
