#!/usr/bin/env python
"""Django's command line; `manage.py up` starts everything."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.embedded")
    try:
        from django.core.management import execute_from_command_line
    except ImportError:
        sys.exit("Django is not installed here. Type 'make setup', then use .venv/bin/python.")
    from django.core.exceptions import ImproperlyConfigured

    from accounts.origin import enter_origin

    enter_origin("command:" + " ".join(sys.argv[1:3]))
    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        sys.exit(f"trainyard: {error}")


if __name__ == "__main__":
    main()
