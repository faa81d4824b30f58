"""`python -m cepviz` is the command `cepviz`."""

import sys

from cepviz.cli import main

if __name__ == "__main__":
    sys.exit(main())
