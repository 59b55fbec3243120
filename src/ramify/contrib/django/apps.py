"""The app: it is there for `manage.py ramify_worker`, and has no models."""

from django.apps import AppConfig  # type: ignore[import-untyped]


class RamifyConfig(AppConfig):  # type: ignore[misc]  # Django has no types
    """The Django app, with a label of its own: the last part of its name would be "django"."""

    name = "ramify.contrib.django"
    label = "ramify"
