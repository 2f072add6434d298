"""The controllers of quota objects: `limits` brings them into ledgers, `status` says what is used."""
