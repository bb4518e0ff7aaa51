"""The connection to the daemon that all process groups of this process share."""
import os
import threading
from typing import Optional

import blink

#: In acquire() the collector of garbage may find tensors, and call release() in the same thread.
_lock = threading.RLock()
_context: Optional[blink.Context] = None
_users = 0


def _leave_to_parent() -> None:
    """In a child that was forked, which makes its own. Another thread may have held the lock."""
    global _context, _users, _lock
    _context, _users, _lock = None, 0, threading.RLock()


os.register_at_fork(after_in_child=_leave_to_parent)


def acquire() -> blink.Context:
    """release() gives it back."""
    global _context, _users
    with _lock:
        _users += 1
        try:
            _context = _context or blink.Context()
        except BaseException:
            _users -= 1
            raise
        return _context


def release(context: blink.Context) -> None:
    """The last one closes it, so that the next group finds a daemon that was started anew."""
    global _context, _users
    with _lock:
        if context is not _context:  # a parent's
            return
        _users -= 1
        if _users == 0:
            context.close()
            _context = None
