"""Whether a decision about snapshot space takes longer where there is much already."""
