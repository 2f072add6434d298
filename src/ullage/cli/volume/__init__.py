"""`ullage volume` and `ullage tree`: volumes of engines (`reading`), their chains (`chain`), their data (`data`)."""
