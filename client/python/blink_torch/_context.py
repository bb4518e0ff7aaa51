"""The connection to the daemon that all process groups of this process share."""
import os
import threading
from typing import Optional

import blink

#: In acquire() the collector of garbage may find tensors, and call release() in the same thread.
_lock = threading.RLock()
_context: Optional[blink.Context] = None
_users = 0
_pid = 0


def acquire() -> blink.Context:
    """release() gives it back. A process that was forked makes its own."""
    global _context, _users, _pid
    with _lock:
        if _pid != os.getpid():
            _context, _users, _pid = None, 0, os.getpid()
        _users += 1
        try:
            _context = _context or blink.Context()
        except BaseException:
            _users -= 1
            raise
        return _context


def release() -> None:
    """The last one closes it, so that the next group finds a daemon that was started anew."""
    global _context, _users
    with _lock:
        _users -= 1
        if _users == 0 and _context:
            _context.close()
            _context = None
