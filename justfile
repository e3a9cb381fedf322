# Every command of the project. Called through ./dev, which prepares .venv first.
set shell := ["sh", "-eu", "-c"]

# what there is
default:
    @just --list --unsorted

# only prepare .venv (with .venv/bin/skillwire)
setup:
    @echo "ready: .venv/bin/skillwire"

# resolve the dependencies anew into requirements.lock (hashes, no address)
lock:
    uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --group dev pyproject.toml -o requirements.lock
    grep -E -A200 '^uv==' requirements.lock | awk 'NR==1 || /^    --hash/ {print; next} {exit}' > requirements-uv.lock
