"""`python -m seriatim`: the command."""

import sys

from seriatim._cli.main import main

if __name__ == "__main__":
    sys.exit(main())
