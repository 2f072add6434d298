"""What the seed charges to projects: `machines` are those of user clusters, `keys` sign their stamps, and by `presence` nobody
believes that there is room where a Machine went and is not recorded yet."""
