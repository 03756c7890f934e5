"""`python -m reconciler`: the same as the `reconciler` command."""

from reconciler.cli.main import main

main()
