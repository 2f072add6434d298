"""Every object in memory as the JSON that is sent, and every revision in SQLite."""
