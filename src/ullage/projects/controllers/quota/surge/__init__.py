"""Says on a seed's copy of a quota that a replacement of machines has passed the limit there."""
