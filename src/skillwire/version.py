"""The version of this package, read at build time too; importing package metadata would cost milliseconds."""

from typing import Final

VERSION: Final = "0.1.0"
