"""Who may name hooks on a snapshot: those who may exec into pods."""
