"""Where style sheets, scripts and pictures are found, and under which address they are served."""

STATIC_URL = "static/"
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.FileSystemFinder",
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
    "portal.styles.joined.JoinedStyles",
]
