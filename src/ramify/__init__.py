"""Ramify: a durable task engine in which running a task can create more tasks."""

__version__ = "0.1.0"
