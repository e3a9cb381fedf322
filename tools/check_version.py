"""Refuse a version that is none: towncrier takes ``--help`` for one."""

import re
import sys

if not re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", sys.argv[1], re.ASCII):
    sys.exit(f"{sys.argv[1]!a} is not a version\nfix: write ./dev changelog VERSION, such as 1.2.0")
