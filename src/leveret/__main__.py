"""`python -m leveret` is the command `leveret`."""

import sys

from leveret.cli.main import main

sys.exit(main())
