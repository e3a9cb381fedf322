"""``python -m skillwire``."""

from skillwire.cli.main import main

main()
