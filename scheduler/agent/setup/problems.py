"""Why a job is not started after all."""


class SetupProblem(Exception):
    """The job cannot be set up as asked; the text names the field and the remedy."""


class SetupStopped(Exception):
    """A stop order came before the program was started."""
