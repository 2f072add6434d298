"""What keeps it true: `quota` brings limits into ledgers, and what is used into the quota objects; `follow` keeps what objects
are stamped to take true after their cut."""
