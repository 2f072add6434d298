"""What the slice of restores does by itself: `restore/perform` carries restores out."""
