"""Schedules: work that starts at times of its own."""
