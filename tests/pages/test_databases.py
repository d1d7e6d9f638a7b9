"""Where the rows are kept is said by DATABASE_URL, and a wrong one is refused in words."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from portal.settings.databases import postgres


@pytest.mark.parametrize(
    "url", ["sqlite:////srv/trainyard.sqlite3", "mysql://db/trainyard", "db/trainyard"]
)
def test_what_is_no_postgresql_is_refused_with_a_remedy(url):
    with pytest.raises(ImproperlyConfigured, match=r"DATABASE_URL must begin with postgres://.*"):
        postgres(url)


def test_a_server_or_none_is_named():
    assert postgres("") == {}
    assert postgres("postgres://me@db/trainyard")["NAME"] == "trainyard"
    assert postgres("postgresql://me@%2Frun%2Fpostgresql/trainyard")["HOST"] == "/run/postgresql"
