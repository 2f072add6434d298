"""What trees take: `usage` looks at the files, `walks` bounds the time that a caller waits for that."""
