"""Events on objects, de-duplicated and rate limited (`recorder`, `series`); they never hold a reconcile back."""
