"""The parts of the extension for goals; not for applications."""
