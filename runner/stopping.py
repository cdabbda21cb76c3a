"""Turns a signal into a request that the training loop asks for between two steps."""

from __future__ import annotations

import signal

STOP_SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)


class StopSignal:
    """Whether one of ``signals`` has come; calling it answers."""

    def __init__(self, *signals: signal.Signals) -> None:
        self.received: int | None = None
        for number in signals or STOP_SIGNALS:
            signal.signal(number, self._receive)

    def _receive(self, number: int, frame: object) -> None:
        self.received = number

    def __call__(self) -> bool:
        """Return whether a signal has come."""
        return self.received is not None
