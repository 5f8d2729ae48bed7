"""``python -m egshape``."""

import sys

from egshape.cli import main

sys.exit(main())
