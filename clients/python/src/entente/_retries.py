"""Whether and when a request is sent again: decisions without a clock of their own, shared by both clients."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

# Answers after which the same request may succeed. 502 and 504 come from proxies whose server was gone, 408 from a body that was too slow.
_PASSING = (408, 429, 502, 503, 504)
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0


def passing(status: int, may_repeat: bool) -> bool:
    """Whether an answer is worth another attempt. 429 is given before anything is done; after the others something may have been."""
    return status == 429 or (may_repeat and status in _PASSING)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Returns the pause that the server asks for, in seconds."""
    try:
        return max(0.0, float(headers.get("retry-after", "")))
    except ValueError:
        return None


def pause(attempt: int, asked: float | None = None, left: float = math.inf) -> float | None:
    """Returns the seconds before the attempt after this one, counted from 0; None if `left` seconds are too few for another one. The pauses
    double, and differ, so that clients of a server that was away do not return all at once. What the server asks for is the least."""
    if left <= 0 or (asked or 0.0) > left:
        return None
    longest = min(LONGEST_PAUSE, FIRST_PAUSE * float(2 ** min(attempt, 10)))
    return min(left, max(asked or 0.0, longest * random.uniform(0.5, 1.0)))
