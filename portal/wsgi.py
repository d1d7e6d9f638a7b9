"""For servers without websockets; live updates fall back to polling."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.prod")
application = get_wsgi_application()
