"""Stopping the user's program at the time limit, or when the parent asks: `Stop` is raised in its main thread, asleep or busy."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType

# A signal that no program uses: Python's own handlers and the user's stay as they are.
STOP_SIGNAL: int = getattr(signal, "SIGRTMAX", getattr(signal, "SIGURG", 0))
AGAIN = 1.0  # seconds until Stop is raised once more, for programs that swallow it
PARENT_LOOK = 1.0  # seconds between two looks whether the parent process still lives
LAST_WORDS = 5.0  # seconds that exit handlers and non-daemon threads have at the very end


class Deadline:
    """Raises `stop(reason)` in the main thread while `running` is set; a daemon thread keeps the time."""

    def __init__(self, stop: Callable[[str], BaseException]) -> None:
        self.running = False
        self._stop = stop
        self.arm(None, lambda: None)
        self._parent = os.getppid()
        self._owner = os.getpid()
        self._leave_at: float | None = None
        self._main = threading.main_thread().ident or 0
        if STOP_SIGNAL and signal.getsignal(STOP_SIGNAL) is signal.SIG_DFL:
            signal.signal(STOP_SIGNAL, self._on_signal)
        threading.Thread(target=self._watch, name="numdebug-deadline", daemon=True).start()

    def arm(self, seconds: float | None, expire: Callable[[], None]) -> None:
        """Count `seconds` from now; `expire` is called once, from any thread, before `Stop` is raised."""
        self.reason = ""
        self._expire = expire
        self._limit = f"the time limit of {seconds:g} s was reached" if seconds is not None else ""
        self._at = time.monotonic() + seconds if seconds is not None else None

    @property
    def passed(self) -> bool:
        """Whether the program was told to stop."""
        return bool(self.reason)

    def leave_soon(self) -> None:
        """All is said: whatever still holds this process up has `LAST_WORDS` seconds."""
        self._leave_at = time.monotonic() + LAST_WORDS

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._owner:
            return
        if not self.reason:
            self.reason = "interrupted"
            self._expire()
        if self.running:
            raise self._stop(self.reason)

    def _watch(self) -> None:
        told = 0.0
        while True:
            now = time.monotonic()
            if os.getppid() != self._parent:  # nobody reads the journal any more
                os.killpg(0, signal.SIGKILL) if os.getpgrp() == os.getpid() else os._exit(1)
            if self._leave_at is not None and now > self._leave_at:
                os._exit(0)
            if self._at is not None and now >= self._at and self.running and now - told >= AGAIN:
                told = now
                if not self.reason:
                    self.reason = self._limit
                    self._expire()
                self._interrupt()
            wait = PARENT_LOOK
            if self._at is not None and self._at > now:
                wait = min(wait, self._at - now)
            time.sleep(wait)

    def _interrupt(self) -> None:
        if STOP_SIGNAL and signal.getsignal(STOP_SIGNAL) == self._on_signal:
            signal.pthread_kill(self._main, STOP_SIGNAL)
        else:
            kind = type(self._stop(self.reason))
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._main), ctypes.py_object(kind))
