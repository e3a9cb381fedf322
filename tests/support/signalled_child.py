"""Runs the command line and sends itself a signal just before or after its nth rename.

Usage: ``signalled_child.py SIGNAL N before|after ARGUMENT...``; with N beyond the last rename nothing is sent.
"""

import os
import signal
import sys

SIGNAL, AT, WHEN = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
_count = 0


def signalling(function):
    def renaming(*arguments, **options):
        global _count  # noqa: PLW0603 - a process counts its renames
        _count += 1
        if _count == AT and WHEN == "before":
            os.kill(os.getpid(), SIGNAL)
        result = function(*arguments, **options)
        if _count == AT and WHEN == "after":
            os.kill(os.getpid(), SIGNAL)
        return result

    return renaming


os.rename, os.replace = signalling(os.rename), signalling(os.replace)
signal.signal(signal.SIGINT, signal.default_int_handler)

from skillwire.cli.main import main  # noqa: E402 - after the patch

main(sys.argv[4:])
