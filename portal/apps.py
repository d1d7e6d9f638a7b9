from django.apps import AppConfig


class PortalConfig(AppConfig):
    name = "portal"

    def ready(self) -> None:
        from portal import celery  # noqa: F401 - `shared_task` binds to the app made there
