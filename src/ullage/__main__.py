"""`python -m ullage` is the command `ullage`."""

from ullage.app import main

if __name__ == "__main__":
    main()
