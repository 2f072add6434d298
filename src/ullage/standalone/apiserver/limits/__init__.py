"""What keeps one request from hurting others: shares of memory, threads for large objects, answers in pieces."""
