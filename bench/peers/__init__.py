"""The same scripted work on other installed runtimes, each in a virtual environment of its own below ``.bench/``."""
