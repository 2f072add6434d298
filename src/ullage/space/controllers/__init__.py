"""`quota_limits` brings limits into ledgers, `quota_status` brings usage into the quota objects. `follow` keeps the stamps of
objects true after their cut."""
