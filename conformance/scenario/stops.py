"""Why the steps of a scenario end before the last one. Each stop has a reason that a reader of the report
understands."""


class Stop(Exception):
    """The steps end here; what was recorded is judged. `reason` says why, and once it is placed, at which step."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_placed = False

    def place(self, step: str) -> None:
        self.reason = f"{self.reason} ({step})"
        self.is_placed = True


class OutOfPatience(Stop):
    """A wait ran out of patience; `waited` is on record."""


class NotBroughtAbout(Stop):
    """The situation did not arise, and no one is to blame; `not-brought-about` is on record."""


class NotApplicable(Stop):
    """The target lacks what the scenario needs."""

    def place(self, step: str) -> None:
        self.is_placed = True  # the reason is about the target, not about a step


class Broken(Stop):
    """The suite could not do its work: the agent did not start, speaks another version, wants a login, or died of
    itself.

    `unanswered` is set where not even `initialize` was answered.
    """

    def __init__(self, reason: str, *, unanswered: bool = False) -> None:
        super().__init__(reason)
        self.unanswered = unanswered

    def place(self, step: str) -> None:
        if self.unanswered:
            self.is_placed = True
        else:
            super().place(step)
