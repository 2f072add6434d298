"""What `kubectl get` shows: objects as rows of a Table (`table`), and the columns of each kind (`printers`)."""
