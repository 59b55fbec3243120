"""Floor 0: values only. Nothing here does I/O, reads a clock or knows a store."""
