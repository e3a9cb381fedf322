# Every command of the project. Called through ./dev, which prepares .venv first.
set shell := ["sh", "-eu", "-c"]
set positional-arguments
set quiet

# what there is
[private]
default:
    just --list --unsorted

# only prepare .venv (with .venv/bin/skillwire)
setup:
    echo "ready: .venv/bin/skillwire"

# serve the example skills, and find, show, add, verify, update and call them; --lan: the flows of a local network
[no-exit-message]
demo *arguments:
    python tools/demo.py "$@"

# every test but the long forms, in under ten minutes; with arguments: only pytest, with these
[no-exit-message]
test *arguments:
    sh tools/test.sh "$@"

# the long forms: 10,000 services, 200 examples per property, network namespaces, npm, browsers, crashes, power cuts
[no-exit-message]
test-deep *arguments:
    sh tools/test_deep.sh "$@"

# format, all lint rules, types, import rules, shell syntax, documentation, changelog
[no-exit-message]
lint:
    sh tools/lint.sh

# format, and apply the fixes of ruff
fmt:
    ruff format
    ruff check --fix

# strict types
[no-exit-message]
types:
    mypy

# write the generated parts of the documentation, then build it into site/
[no-exit-message]
docs:
    python tools/generate_docs.py
    zensical build --strict --clean
    echo "written: site/index.html"

# the schema of Skill Sharing in its three forms, from the messages; "--release DATE" keeps a copy for good
schema *arguments:
    python tools/generate_schema.py "$@"

# the documentation on http://127.0.0.1:8001, live
[no-exit-message]
docs-serve:
    python tools/generate_docs.py
    watchfiles "python tools/generate_docs.py" docs & trap "kill $!" EXIT; zensical serve --dev-addr 127.0.0.1:8001

# each fuzz target for SECONDS, two at a time
[no-exit-message]
fuzz seconds="60" *targets:
    python tools/fuzz.py "$@"

# the comparisons with peers, written to bench/RESULTS.md; only printed with --quick (few rounds) or files
[no-exit-message]
bench *arguments:
    python tools/bench.py "$@"

# the changelog of the next release, from changelog.d
[no-exit-message]
changelog version:
    python tools/check_version.py "$1"
    towncrier build --yes --version "$1"

# resolve the dependencies anew into the lock files (hashes, no address)
lock:
    sh tools/lock.sh

# the wheel, in dist/
wheel:
    uv build --quiet --wheel --no-build-isolation --out-dir dist

# remove what can be made again, except .venv
clean:
    rm -rf build dist site .venv-3.* .cache .fuzz .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache tests/interop/node_modules
    find src tests bench tools -name __pycache__ -type d -prune -exec rm -rf {} +
