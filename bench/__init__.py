"""What the runtime costs, as a ratio to a bare hand-written loop that does the same work in the same run."""
