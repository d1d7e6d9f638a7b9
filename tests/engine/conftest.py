"""Engine tests decide by properties, not by the clock of a busy machine."""

from hypothesis import settings

settings.register_profile("engine", deadline=None)
settings.load_profile("engine")
