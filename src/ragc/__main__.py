"""`python -m ragc` is the command line."""

from __future__ import annotations

import sys

from ragc.cli.main import main

sys.exit(main())
