"""Brings the shares of a namespace into its ledger, and onto the namespace where no webhook has done so."""
