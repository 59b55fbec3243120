"""Django's tasks framework on Ramify: a backend for `TASKS`, and `manage.py ramify_worker`.

As an app in `INSTALLED_APPS` it brings the command; the backend alone needs no app.
"""

from ramify.contrib.django.backend import RamifyBackend

__all__ = ["RamifyBackend"]
