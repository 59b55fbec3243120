"""Outgoing: what attempts leave behind, on its way to the store."""
