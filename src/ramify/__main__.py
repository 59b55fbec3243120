"""`python -m ramify` is `ramify`."""

from ramify.cli.main import main

if __name__ == "__main__":
    main(prog_name="ramify")
