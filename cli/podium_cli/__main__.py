"""`podium`, also as `python -m podium_cli`."""

from podium_cli.app import app


def main() -> None:
    """Runs the command line; ends the process with its status."""
    app(prog_name="podium")


if __name__ == "__main__":
    main()
