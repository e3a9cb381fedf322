"""Find a skill, install one, and call another: python find_install_call.py 127.0.0.1:8000"""

import sys

from skillwire import Client

origin = sys.argv[1]
with Client() as client:
    for skill, score in client.find("profile a table", origin)[:3]:
        print(f"{score:4.1f}  {skill.name}")
    report = client.add(f"{origin}/csv-profile", agents=["claude-code"], consent=True)
    for skill in report.installed:
        print("installed", skill.name, skill.version)
    for name in report.unchanged:
        print("unchanged", name)
    execution = client.call(f"{origin}/working-days", {"start": "2026-04-02", "days": 5})
    print("ends on", execution.check().output["end"])
