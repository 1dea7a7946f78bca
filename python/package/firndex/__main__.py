"""``python -m firndex ARGUMENTS`` is the command ``firndex``."""

import os
import signal
import sys

from ._firndex import _command


def main() -> int:
    # Ctrl-C ends the command as it ends any other program, unless this process was told to ignore it.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Which streams were closed when the process began is noted by now. No file may get the number of one.
    for stream in range(3):
        try:
            os.fstat(stream)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    # What stands before the command's arguments, options of the interpreter among it. Python 3.9 does not tell.
    begun = getattr(sys, "orig_argv", ["", "-m", "firndex", *sys.argv[1:]])
    before = begun[1 : len(begun) - len(sys.argv) + 1]
    return _command(sys.argv[1:], sys.executable, before)


if __name__ == "__main__":
    sys.exit(main())
