"""``python -m zett_agent.cli``: the command ``zett`` without its console script."""

from __future__ import annotations

import sys

from zett_agent.cli import main

if __name__ == "__main__":
    sys.exit(main())
