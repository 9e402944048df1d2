"""The parts and the engine of a request; not for applications."""
