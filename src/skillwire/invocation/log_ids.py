"""What logs and traces call an execution.

Who knows the ID of a stranger's execution may follow it and take it back, so an ID is a secret of its caller, and those
who read logs are more than those who may read executions. What is told is its beginning: that finds it, and leaves 96
of its random bits to be guessed.
"""

from __future__ import annotations

import re
from typing import Final

_SECRET: Final = 24  # hexadecimal digits
_ID: Final = re.compile(rf"(exec-(?:[0-9a-f]{{12}})?[0-9a-f]{{8}})[0-9a-f]{{{_SECRET}}}")


def without_ids(text: str) -> str:
    """Return a text, such as an ID, with so much of each ID in it as may be told."""
    return _ID.sub(r"\1", text) if "exec-" in text else text
