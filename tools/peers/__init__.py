"""Programs of other projects that tests run beside Ullage: Go builds each once from pinned versions, into the user's cache."""
