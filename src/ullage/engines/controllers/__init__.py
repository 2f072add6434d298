"""One controller for each kind. Controllers do not import each other: `slice` connects them."""
