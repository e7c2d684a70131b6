"""`python -m numdebug`."""

from numdebug.cli import main

main()
