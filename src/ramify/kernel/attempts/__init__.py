"""Attempts: what runs handlers, and what a handler sees."""
