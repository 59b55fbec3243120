"""What ties Ramify to other packages: each module needs an extra, and nothing imports it unless it is asked for."""

__all__: list[str] = []
