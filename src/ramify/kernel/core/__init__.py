"""Core: the decisions of one process, without threads, clock or I/O."""
