"""For working on Trainyard: as embedded, with Django's debug pages and unhashed static files."""

from portal.settings.base import *

DEBUG = True
STORAGES["staticfiles"] = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
