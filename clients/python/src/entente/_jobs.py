"""What a worker knows of the jobs that it runs, whichever kind of function works on them."""

from __future__ import annotations

import uuid
from typing import Any

from ._generated.answers import ClaimedJob, JobSignal


class JobState:
    """What a worker knows of a job that it runs; shared with the function that works on it."""

    def __init__(self, claimed: ClaimedJob) -> None:
        self.claimed = claimed
        self.cancelled = False
        self.lost = False
        # Whether the function that works on it was interrupted, once.
        self.interrupted = False
        # Whether its end, or its return, has been reported.
        self.ended = False
        # What the function has returned, or how it has failed, while that is reported.
        self.outcome: tuple[Any] | None = None
        self.reported = 0
        # Begins the keys of this claim's events: a job that was handed back is claimed again under the same number of its attempt.
        self.prefix = uuid.uuid4().hex[:16]
        self.signals: list[JobSignal] = list(claimed.signals or [])

    @property
    def stopping(self) -> bool:
        """Whether nothing more is to be done for the job."""
        return self.cancelled or self.lost
