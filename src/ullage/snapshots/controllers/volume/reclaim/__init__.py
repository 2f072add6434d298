"""Deletes restored volumes whose claims are gone."""
