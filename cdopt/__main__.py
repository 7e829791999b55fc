"""``python -m cdopt``: the command, where its script is not on the path."""

from cdopt.cli import app

if __name__ == "__main__":
    app()
