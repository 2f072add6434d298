"""Refuses schedules that cannot be, with the field and what is allowed."""
