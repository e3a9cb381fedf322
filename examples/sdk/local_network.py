"""Find meeting rooms on the local network: python local_network.py

In another terminal: skillwire serve examples/lan/house --lan --grant-all
"""

from skillwire import Client

with Client() as client:
    for skill in client.lan.discover(capabilities=["room-find"]):
        print(skill.skill_id, skill.status)
    # No authority has certified the provider's key.
    execution = client.call("lan:room-find", {"seats": 8}, use_unverified=True)
    print(execution.check().output)
