"""Integrations with other packages: each module needs an extra."""

__all__: list[str] = []
