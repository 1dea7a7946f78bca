"""The exceptions of this package. Each message says what was found, what was expected, and what to do."""

import builtins


class Error(Exception):
    """Any failure of a pool. After it, everything stored before is unchanged.

    If a batch failed part-way, `done` is the number of its entries that took effect, and `undone` has the indices of
    the others, in order. Otherwise both are None.
    """

    done = None
    undone = None

    def _of_batch(self, entries):
        if entries > 1:
            first, *rest = self.args
            told = f"{self.done} of {entries} entries took effect: {rest[0] if rest else first}"
            self.args = (first, told) if rest else (told,)


class Missing(Error, builtins.FileNotFoundError):
    """There is no pool at this path."""


class Exists(Error, builtins.FileExistsError):
    """There is a file already where a pool was to be created."""


class Held(Error, builtins.BlockingIOError):
    """Another process, or another handle of this one, has the pool open."""


class NotOpened(Error, builtins.OSError):
    """The pool cannot be opened or created, for another reason, which the message tells."""


class NotAPool(NotOpened):
    """The file is something else, and stays as it is."""


class Mismatch(NotOpened):
    """The pool holds something else than was asked for: another kind, engine, size or dtype."""


class NeedsRecovery(NotOpened):
    """The pool was opened for reading, but was not closed. Open it once for writing."""


class NotRestored(NotOpened):
    """The pool was not closed before power was lost, and cannot be restored."""


class Corrupt(Error):
    """The pool is damaged."""


class PoolFull(Error):
    """There is no space: the limit `max_bytes` is reached, or the disk is full."""


class Limit(Error, builtins.ValueError):
    """A key or a value is too long, or too many keys share one hash."""


class TooLarge(Error, builtins.ValueError):
    """An entry would take more than a quarter of its cache. It was not stored."""


class CacheHeld(Error):
    """No room could be made in a cache, since other threads were reading what would go. Try again."""


class BadOption(Error, builtins.ValueError):
    """An argument of the opening makes no sense."""


class Closed(Error, builtins.ValueError):
    """The handle is closed."""


class ReadOnly(Error):
    """A change of a pool that is open for reading."""


class Forked(Error):
    """A handle was used in a forked child. Open the pool again there."""


class Interrupted(Error):
    """The owner ended while it made a guest's change, which may have happened or not. Look, and do it again if not."""


class Silent(Error, builtins.TimeoutError):
    """The owner has not answered this guest for `patience` seconds. What was asked of it may still happen."""


class ForOwner(Error):
    """Only the owner of a pool can do this, and this process is a guest."""


class Vanished(Error):
    """A part of the file is gone while the pool is open (only with `survive_bus_errors`)."""


class LogFailed(Error):
    """The log could not be written or has no space. Changes are refused until it can be."""


class NotLogged(Error):
    """There is no log to wait for: use `sync`."""


class SystemFailure(Error, builtins.OSError):
    """The operating system failed; `errno` tells how."""


class NotPicklable(Error, builtins.TypeError):
    """A handle belongs to its process, and cannot be pickled or copied."""


#: What `dbm` modules call their exception.
error = (Error, builtins.OSError)
