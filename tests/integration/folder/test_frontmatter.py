"""What the reader of the simple form answers, and what it leaves to YAML."""

import subprocess
import sys


def test_reading_a_plain_skill_does_not_import_yaml():
    code = (
        "import sys\n"
        "from skillwire.folder.frontmatter import parse_skill_md\n"
        "parse_skill_md(b'---\\nname: a\\ndescription: d\\nmetadata:\\n  version: \"1.0\"\\n---\\n# A\\n')\n"
        "sys.exit('yaml' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
