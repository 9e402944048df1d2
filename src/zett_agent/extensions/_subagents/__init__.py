"""The parts of the two extensions for subagents; not for applications."""
