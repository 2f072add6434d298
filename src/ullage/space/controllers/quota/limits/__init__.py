"""Brings the limits of a quota into the ledger of its namespace, and takes away those of virtual machines that are gone."""
