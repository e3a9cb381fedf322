"""The console of executions and tasks: who is signed in, what they may see and do, and pages that stay live."""
