"""The parts of the extension that asks the user; its public names are in ``extensions.ask_user``."""
