"""`python -m numdebug`, which puts the current folder first on the import path: a json.py of the user's there is not for us."""

import sys

if not sys.flags.safe_path:
    del sys.path[0]

from numdebug.cli import main

main()
