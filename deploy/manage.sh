#!/bin/sh
# manage.py on an installed machine, as the units run it: same user, settings, variables and database.
# Plain manage.py takes the embedded settings and acts on an SQLite file beside the checkout.
# Usage, as root: deploy/manage.sh [--with FILE] COMMAND ...
# FILE: further variables, which win over those of /etc/trainyard/env; the owner's DATABASE_URL, say,
# and an empty DATABASE_URL_FILE= where that names a file: NAME_FILE wins over NAME.
set -eu

also=""
if [ "${1:-}" = --with ]; then
    also="$(realpath -- "${2:?which file of variables?}")" # systemd takes no other
    shift 2
fi
how=--pipe
if [ -t 0 ] && [ -t 1 ]; then how=--pty; fi
exec systemd-run --quiet --wait --collect "$how" \
    -p User=trainyard -p Group=trainyard -p UMask=0077 -p WorkingDirectory=/opt/trainyard \
    -p Environment=DJANGO_SETTINGS_MODULE=portal.settings.prod \
    -p EnvironmentFile=/etc/trainyard/env ${also:+-p "EnvironmentFile=$also"} \
    /opt/trainyard/.venv/bin/python manage.py "$@"
