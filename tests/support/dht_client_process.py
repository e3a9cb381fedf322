# ruff: noqa: T201  # it answers on its standard output
"""A client of the DHT in a process of its own, on a host of a network: asked on its standard input, a line a question.

``find NAME`` prints the identifiers of the skills with a capability, as a list in JSON; an error prints its code.
"""

import json
import sys

from skillwire import SkillwireError, dht


def main():
    with dht.Client(bootstrap=sys.argv[1:]) as client:
        print(json.dumps([]), flush=True)
        for line in sys.stdin:
            try:
                answer = client.find_by_capability([line.strip()], timeout=2.0)
                print(json.dumps(sorted(skill.skill_id for skill in answer.skills)), flush=True)
            except SkillwireError as error:
                print(json.dumps([error.code]), flush=True)


if __name__ == "__main__":
    main()
