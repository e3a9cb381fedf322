#!/bin/sh
# ./dev lint: every check that runs no test. All of them run; those that failed are named at the end.
set -u
failed=

check() {
  title=$1
  shift
  printf '== %s\n' "$title"
  "$@" || failed="$failed $title,"
}

shell_syntax() {
  bash -n .ci/run || return
  for script in dev tools/*.sh; do
    sh -n "$script" || return
  done
}

# The output of these two is of interest only when they fail.
changelog() { output=$(towncrier build --draft --version next 2>&1) || { printf '%s\n' "$output" && false; }; }
documentation() {
  output=$(zensical build --strict --clean 2>&1) || { printf '%s\n' "$output" | sed '/^Traceback/,$d' && false; }
}

check format ruff format --check --quiet
check rules ruff check --quiet
check types mypy
check words python tools/banned_words.py
check imports lint-imports --no-logo --no-cache
check adapters lint-imports --no-logo --no-cache --config tools/imports_at_run_time.toml
check "shell syntax" shell_syntax
check changelog changelog
check "generated documentation" python tools/generate_docs.py --check
check "generated schema" python tools/generate_schema.py --check
check documentation documentation

if [ -n "$failed" ]; then
  printf 'lint failed:%s\n' "${failed%,}"
  exit 1
fi
echo "lint passed"
