"""``python -m constrain``."""

import sys

from constrain.cli import main

if __name__ == "__main__":
    sys.exit(main())
