"""Takes backups: `planning` writes down what one is of, `rules` say what comes next, `cutting` when all volumes are cut."""
