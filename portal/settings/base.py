"""What every installation shares. Each variable read here is described in deploy/env.example."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import environ
from csp.constants import NONE, SELF

from portal.settings import books, databases, env
from portal.settings.limits import *
from portal.settings.outbound import *
from portal.settings.served import *
from portal.settings.signing import *

ROOT = Path(__file__).resolve().parents[2]
STATE_DIR = env.state_dir(ROOT)
RUN_DIR = env.run_dir(STATE_DIR)

DEBUG = False
SECRET_KEY = env.secret_key(STATE_DIR)
SECRET_KEY_FALLBACKS = env.words("TRAINYARD_SECRET_KEY_FALLBACKS")
ALLOWED_HOSTS = env.words("TRAINYARD_ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
PUBLIC_URL = env.text("TRAINYARD_PUBLIC_URL", "http://localhost:8000").rstrip("/")
CSRF_TRUSTED_ORIGINS = env.words("TRAINYARD_CSRF_TRUSTED_ORIGINS")

INSTALLED_APPS = [
    "portal.apps.PortalConfig",
    "scheduler.apps.SchedulerConfig",
    "accounts.apps.AccountsConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "servestatic.runserver_nostatic",
    "django.contrib.staticfiles",
    "channels",
    "rest_framework",
    "drf_spectacular",
    "guardian",
    "allauth",
    "allauth.account",
    "allauth.socialaccount",
    "csp",
    "django_htmx",
    "template_partials",
]

MIDDLEWARE = [
    "portal.serving.zones.zoned",
    "portal.middleware.together",
    "servestatic.middleware.ServeStaticMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]
MIDDLEWARE_TOGETHER = [
    "portal.origins.OriginMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "accounts.adapter.PersonMiddleware",
    "portal.previews.PreviewMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
# These look for names in MIDDLEWARE; the middleware they miss is in MIDDLEWARE_TOGETHER.
SILENCED_SYSTEM_CHECKS = ["security.W001", "security.W002", "security.W003"]

ROOT_URLCONF = "portal.urls"
ASGI_APPLICATION = "portal.asgi.application"
WSGI_APPLICATION = "portal.wsgi.application"

TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [ROOT / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "portal.pages.shell.shell",
            ],
            "builtins": ["portal.templatetags.portal"],
        },
    }
]
FORM_RENDERER = "portal.forms.widgets.selects.Renderer"

DATABASE_URL = env.text("DATABASE_URL")
DATABASES = {"default": databases.postgres(DATABASE_URL) or databases.sqlite(STATE_DIR)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# Not the broker: signing in must work while it is down.
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.db.DatabaseCache",
        "LOCATION": "trainyard_cache",
        # Beyond so many rows it forgets counts that still hold; Django's own bound is 300.
        "OPTIONS": {"MAX_ENTRIES": 20_000},
    }
}

REDIS_URL = env.text("REDIS_URL") or f"unix://{RUN_DIR}/valkey.sock?db=0"
CHANNEL_LAYERS: dict[str, dict[str, Any]] = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [REDIS_URL], "prefix": "trainyard"},
    }
}

CELERY_BROKER_URL = env.celery_broker_url(REDIS_URL)
CELERY_TIMEZONE = "UTC"
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_TASK_IGNORE_RESULT = True
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
# A task that takes longer than the first is handed out again beside itself. What a killed worker
# had begun comes again as much later; it is regular, and what cannot wait has its next turn sooner.
CELERY_BROKER_TRANSPORT_OPTIONS = {"visibility_timeout": 2 * 3600, "socket_connect_timeout": 2}
CELERY_TASK_DEFAULT_QUEUE = "default"
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BEAT_SCHEDULE_FILENAME = str(STATE_DIR / "beat-schedule")

AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = [
    "accounts.adapter.PersonBackend",
    "guardian.backends.ObjectPermissionBackend",
]
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_REDIRECT_URL = "home"
LOGIN_URL = "account_login"
ANONYMOUS_USER_NAME = None
GUARDIAN_MONKEY_PATCH_USER = False
GUARDIAN_GROUP_OBJ_PERMS_MODEL = "guardian.GroupObjectPermission"
ACCOUNT_ADAPTER = "accounts.signing.local.AccountAdapter"
ACCOUNT_FORMS = {"reset_password": "accounts.signing.local.ResetForm"}
SOCIALACCOUNT_ADAPTER = "portal.pages.signing.elsewhere.Adapter"
ACCOUNT_LOGIN_METHODS = {"username", "email"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "email*", "password1*", "password2*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_LOGOUT_ON_PASSWORD_CHANGE = True
ACCOUNT_PREVENT_ENUMERATION = True
ACCOUNT_SESSION_REMEMBER = True

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["portal.api.auth.TokenOrSession"],
    "DEFAULT_PERMISSION_CLASSES": ["portal.api.auth.IsSignedInWithScope"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["portal.api.parsing.StrictJSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "portal.api.errors.problem_response",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Trainyard API",
    "VERSION": "v1",
    "DESCRIPTION": "Submit, watch and explain training jobs; see nodes, queues and costs.",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "OAS_VERSION": "3.1.0",
}

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = False

STATIC_ROOT = STATE_DIR / "static"
STATICFILES_DIRS = [ROOT / "static"]
MEDIA_ROOT = STATE_DIR / "files"
BACKUP_STAMP = env.text("TRAINYARD_BACKUP_STAMP")
STORAGES: dict[str, Any] = {
    "default": {
        "BACKEND": "portal.whole_files.WholeFiles",
        # Bytes last as long as the rows that acknowledge them.
        "OPTIONS": {
            "location": str(MEDIA_ROOT),
            "lasts": bool(DATABASE_URL) or databases.IS_FLUSHED,
        },
    },
    "staticfiles": {"BACKEND": "servestatic.storage.CompressedManifestStaticFilesStorage"},
}

SESSION_ENGINE = "accounts.adapter"
SESSION_COOKIE_AGE = env.whole("TRAINYARD_SIGNED_IN_S", 12 * 3600, low=300, high=30 * 86400)
SIGNED_IN_IDLE_S = env.whole("TRAINYARD_SIGNED_IN_IDLE_S", 2 * 3600, low=60, high=30 * 86400)
PASSWORD_AGAIN_S = env.whole("TRAINYARD_PASSWORD_AGAIN_S", 900, low=0, high=86400)
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SAMESITE = "Lax"
CSRF_FAILURE_VIEW = "portal.pages.errors.csrf_failed"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
SESSION_ORIGIN = env.text("TRAINYARD_SESSION_ORIGIN").rstrip("/")
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        # Where "Connect" leads to: browsers ask the policy about redirects of a form as well.
        "form-action": [SELF, *([SESSION_ORIGIN] if SESSION_ORIGIN else [])],
        "frame-ancestors": [NONE],
        "base-uri": [NONE],
        "object-src": [NONE],
        "manifest-src": [SELF],
    }
}
DATA_UPLOAD_MAX_MEMORY_SIZE = 2 * 1024 * 1024
EMAIL_URL = env.text("EMAIL_URL")
if EMAIL_URL:
    globals().update(environ.Env.email_url_config(EMAIL_URL))
else:
    EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
    EMAIL_FILE_PATH = str(STATE_DIR / "mail")
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = env.text("TRAINYARD_MAIL_FROM", "Trainyard <trainyard@localhost>")

# The scheduler's own figures; scheduler/conf.py turns them into one frozen value.
TRAINYARD = {
    "node_lease_s": env.whole("TRAINYARD_NODE_LEASE_S", 45, low=2, high=3600),
    "disconnect_grace_s": env.whole("TRAINYARD_DISCONNECT_GRACE_S", 900, low=2, high=86400),
    "node_token_days": env.whole("TRAINYARD_NODE_TOKEN_DAYS", 30, low=0, high=3650),
    "lost_slack_s": env.whole("TRAINYARD_LOST_SLACK_S", 60, low=1, high=3600),
    "start_deadline_s": env.whole("TRAINYARD_START_DEADLINE_S", 60, low=2, high=3600),
    "storage_pause_s": env.whole("TRAINYARD_STORAGE_PAUSE_S", 30, low=0, high=3600),
    "log_drain_s": env.whole("TRAINYARD_LOG_DRAIN_S", 60, low=1, high=3600),
    "log_cap_mib": env.whole("TRAINYARD_LOG_CAP_MIB", 1024, low=1, high=1024 * 1024),
    "output_file_mib": env.whole("TRAINYARD_OUTPUT_FILE_MIB", 256, low=0, high=16 * 1024),
    "output_job_mib": env.whole("TRAINYARD_OUTPUT_JOB_MIB", 1024, low=0, high=1024 * 1024),
    "output_count": env.whole("TRAINYARD_OUTPUT_COUNT", 200, low=0, high=1000),
    "keep_log_days": env.whole("TRAINYARD_KEEP_LOG_DAYS", 180, low=1, high=36500),
    "keep_file_days": env.whole("TRAINYARD_KEEP_FILE_DAYS", 90, low=1, high=36500),
    "keep_report_days": env.whole("TRAINYARD_KEEP_REPORT_DAYS", 14, low=1, high=36500),
    "keep_hour_days": env.whole("TRAINYARD_KEEP_HOUR_DAYS", 400, low=2, high=36500),
    "sample_retention_s": env.whole("TRAINYARD_SAMPLE_RETENTION_S", 86400, low=60),
    "order": env.choice("TRAINYARD_ORDER", "fair", "fifo", "shortest", "las"),
    "placement": env.choice("TRAINYARD_PLACEMENT", "tight", "pack"),
    "preempt": env.choice("TRAINYARD_PREEMPT", "tiers", "true", "false"),
    "min_run_s": env.whole("TRAINYARD_MIN_RUN_S", 600, low=0, high=30 * 86400),
    "rest_s": env.whole("TRAINYARD_REST_S", 1800, low=0, high=30 * 86400),
    "resize": env.flag("TRAINYARD_RESIZE", True),
    "heads": env.whole("TRAINYARD_HEADS", 2, low=1, high=16),
    "booking_release_s": env.whole("TRAINYARD_BOOKING_RELEASE_S", 900, low=60, high=86400),
    "session_longest_s": env.whole("TRAINYARD_SESSION_LONGEST_S", 86400, low=60),
    "session_idle_s": env.whole("TRAINYARD_SESSION_IDLE_S", 4 * 3600, low=10),
    "session_origin": SESSION_ORIGIN,
    "tier_ceiling": env.choice(
        "TRAINYARD_TIER_CEILING", "urgent", "exploratory", "normal", "production"
    ),
    "allow_file_git": env.flag("TRAINYARD_ALLOW_FILE_GIT", False),
    **books.FIGURES,
    "public_url": PUBLIC_URL,
}

LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "loggers": {"httpx": {"level": "WARNING"}},  # one line per request of a client says nothing
    "root": {
        "handlers": ["console"],
        "level": env.log_level("TRAINYARD_LOG_LEVEL"),
    },
}
