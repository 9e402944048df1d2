"""The parts of the permission extension; its public names are in ``extensions.permission``."""
