"""For working on Trainyard: as embedded, with Django's debug pages and unhashed static files."""

from portal.settings.base import *  # noqa: F403

DEBUG = True
STORAGES["staticfiles"] = {  # noqa: F405
    "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
}
