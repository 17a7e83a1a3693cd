"""`python -m privcube`, where the command itself is not on the path."""

from privcube.cli.main import main

if __name__ == "__main__":
    main()
