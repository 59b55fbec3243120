"""Processes: workers in this program and in others, started, watched and stopped."""
