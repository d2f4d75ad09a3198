"""Spending in the asynchronous client: what a call may cost is reserved before it is made, and settled afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any

from .._generated import operations as api
from .._generated.answers import SpendReservation
from ..errors import EntenteError
from .transport import Transport

Amount = int | float | str


class Reservation:
    """Amounts that are reserved while a block runs: `async with client.reserve({"USD": "0.10"}, model="m") as held`, then
    `await held.settle({"USD": "0.07"})`. What was not settled when the block ends is released."""

    def __init__(self, transport: Transport, body: Any) -> None:
        self._transport = transport
        self._body = body
        self._reservation: SpendReservation | None = None
        self._settled = False

    @property
    def reservation(self) -> SpendReservation:
        """The reservation, with the budgets that pay for it."""
        if self._reservation is None:
            raise EntenteError("Nothing is reserved yet: enter the reservation with `with`.")
        return self._reservation

    async def settle(self, cost: Mapping[str, Amount], model: str | None = None) -> SpendReservation:
        """Charges what the call has cost, and releases the rest."""
        body: Any = {"cost": dict(cost)}
        if model is not None:
            body["model"] = model
        found = self.reservation.reservation_id
        if found is None:
            raise EntenteError("Nothing was reserved, so there is nothing to settle: reserve the most that the call can cost.")
        self._reservation = await self._transport.call(api.settle_spend(found, body).repeatable())
        self._settled = True
        return self._reservation

    async def __aenter__(self) -> Reservation:
        # With its `call_id` a repeated request gets the same reservation.
        self._reservation = await self._transport.call(api.reserve_spend(self._body).repeatable())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not self._settled and self.reservation.reservation_id is not None:
            try:
                await self._transport.call(api.release_spend(self.reservation.reservation_id))
            except EntenteError:
                # It expires by itself.
                if error is None:
                    raise
