"""A runtime for tool-calling agents. Names load on first use: importing the package alone is cheap."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"
