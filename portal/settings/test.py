"""For the test suite: fast hashes, everything in a temporary folder, templates that complain."""

import atexit
import os
import shutil
import tempfile

# Workers of one run inherit the folder of who began them; each needs its own, as their databases
# number rows alike and the files of one would be those of the other. What they start shares it.
if "TRAINYARD_STATE_DIR" not in os.environ or os.environ.get(
    "TRAINYARD_TEST_WORKER", os.environ.get("PYTEST_XDIST_WORKER", "")
) != os.environ.get("PYTEST_XDIST_WORKER", ""):
    _folder = tempfile.mkdtemp(prefix="trainyard-test-")
    os.environ["TRAINYARD_STATE_DIR"] = _folder
    os.environ["TRAINYARD_TEST_WORKER"] = os.environ.get("PYTEST_XDIST_WORKER", "")
    atexit.register(shutil.rmtree, _folder, ignore_errors=True)

from portal.settings import env, limits
from portal.settings.base import *

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
STORAGES["staticfiles"] = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
STORAGES["default"]["OPTIONS"]["lasts"] = False  # as the tests' databases
if DATABASES["default"]["ENGINE"].endswith("postgresql"):
    # Test databases are dropped at the end; a pool would keep them busy.
    DATABASES["default"]["OPTIONS"].pop("pool", None)
else:
    # As Django does by itself for its own backend, whose name parallel tests look for.
    DATABASES["default"]["TEST"] = {"NAME": ":memory:"}
# Tests call as fast as they can, all from one address; those of the limits set their own.
CALLS_PER_MINUTE = dict.fromkeys(limits.CALLS_PER_MINUTE, 0)
CALLS_AT_ONCE = {}
SOCKETS_AT_ONCE = 0
TRAINYARD["allow_file_git"] = True
STATIC_ROOT.mkdir(parents=True, exist_ok=True)  # the static middleware looks for it
# Receivers of tests listen on this machine.
WEBHOOK_NETWORKS = env.networks("", "127.0.0.0/8,::1")
WEBHOOK_PORTS, WEBHOOKS_IN_THE_CLEAR = None, True
CHAT_HOSTS = ("hooks.slack.com", ".logic.azure.com", "127.0.0.1", "localhost")
