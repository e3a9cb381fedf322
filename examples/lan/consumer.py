"""A consumer with the SDK: it finds skills for the organisation's data, and joins the scene of the one that it chooses.

``SKILLWIRE_HOME=... python consumer.py`` is one more agent, with its own home.
"""

import skillwire

with skillwire.Client() as client:
    found = client.lan.discover(capabilities=["org-data-read"])
    for skill in found:
        owner = skill.agent_id or "an agent"
        print(f"found {skill.skill_id} {skill.version} of {owner} at {skill.endpoint}, {skill.status}")
    scene = found[0].scenes[0]
    result = client.lan.request_scene(scene, ["org-data-read"], join=True)
    if result.is_joined:
        members = ", ".join(f"{member.skill_id} ({member.role})" for member in result.members)
        print(f"joined {result.group_id}: {members}; connection: {result.connection_info['endpoint']}")
