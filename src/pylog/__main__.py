"""`python -m pylog`: the command where its script is not installed (a source tree, a zip)."""

import sys

from pylog.cli import main

if __name__ == "__main__":
    sys.exit(main())
