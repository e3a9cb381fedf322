"""The consumer of the story: eight steps from a domain name to a table, with skillwire's SDK.

``python book.py 127.0.0.1:8000`` logs a person in, in the browser. With ``--client-secret-env NAME`` the program logs
in as itself. The descriptor names the authorization server; README.md lists the requirements on loopback.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time

from skillwire import Client, SkillwireError

INPUTS = {"cuisine": "Italian", "date": "2025-08-15", "time": "19:00", "party_size": 4, "city": "San Francisco"}


def book(options: argparse.Namespace) -> None:
    """Do the eight steps of the specification's section 5.1."""
    with Client() as client:
        [(booking, _)] = client.find("restaurant", [options.origin], capability_type="task")
        print_step(
            1,
            "Discovery",
            f"{booking.shared.id} {booking.version}, {booking.shared.capability_type}, {booking.shared.access}",
        )

        descriptor = booking.descriptor()  # fetched, and checked against the protocol's schema and rules
        names = ", ".join(one.name for one in descriptor.inputs)
        scopes = ", ".join(descriptor.auth.oauth2.scopes)
        print_step(2, "Descriptor", f"valid; takes {names}; wants {descriptor.auth.type.value} with {scopes}")

        print_step(3, "Authentication", log_in(options))

        print_step(4, "Invocation", f"{descriptor.endpoint.method} {descriptor.endpoint.url} {json.dumps(INPUTS)}")
        execution = booking.call(INPUTS, wait=False, caller_type="ifay")
        print_step(5, "Accepted", f"{execution.status}, {execution.execution_id}")

        while execution.status == "accepted":
            time.sleep(0.5)
            execution = client.execution(execution.execution_id)
        print_step(6, "Polling", str(execution.status))

        execution = client.result(execution.execution_id).check()  # waits; raises when it failed
        print_step(7, "Completion", f"{execution.status}, {json.dumps(execution.output)}")

    table = execution.output
    print_step(
        8,
        "Confirmation",
        f"{table['restaurant']}, {table['address']}, at {table['time']}: {table['confirmation_code']}",
    )


def log_in(options: argparse.Namespace) -> str:
    """Complete the OAuth 2.0 flow that the origin wants; skillwire keeps the token, and sends it to this origin only."""
    command = [sys.executable, "-m", "skillwire", "auth", "login", options.origin, "--yes", "--quiet", "--json"]
    command += ["--client-id", options.client_id]
    if options.client_secret_env:
        command += ["--flow", "client-credentials", "--client-secret-env", options.client_secret_env]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        sys.exit(f"book.py: the login failed: {done.stdout.decode()}")
    login = json.loads(done.stdout)
    flow = "client credentials" if options.client_secret_env else "authorization code with PKCE"
    return f"{flow} at {login['server']}, for {login['scope']}"


def print_step(step: int, name: str, text: str) -> None:
    """Print a step."""
    print(f"{step}  {name:<14}  {text}", flush=True)


def main() -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(description="Book a table.")
    parser.add_argument("origin", help="the provider, such as 127.0.0.1:8000")
    parser.add_argument(
        "--client-id", default="concierge", help="how the authorization server knows this program (default concierge)"
    )
    parser.add_argument("--client-secret-env", metavar="NAME", help="log in as a program, with the secret in NAME")
    try:
        book(parser.parse_args())
    except SkillwireError as error:
        diagnostics = error.diagnostics()
        print(f"book.py: {error.code}: {error.message}\n{diagnostics.fix or ''}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
