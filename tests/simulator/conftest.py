"""As in the engine's tests: properties, not the clock of a busy machine."""

import tests.engine.conftest  # noqa: F401
