#!/usr/bin/env bash
# Create .venv and install what requirements-dev.lock pins, and polylake itself in editable mode.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-python3}

die() {
  printf '%s\n' "$@" >&2
  exit 1
}

on_debian_as_root() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null
}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  die "polylake needs Python 3.11 or newer, and '$python' is not. Another one: make PYTHON=python3.13 test"

if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
  # Debian splits this module off from Python, and without it a venv has no pip.
  if ! "$python" -c 'import ensurepip' 2>/dev/null; then
    on_debian_as_root || die "'$python' cannot create virtual environments. On Debian or Ubuntu type:" \
      "  sudo apt-get install python3-venv"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv
  fi
  echo "Creating .venv with $("$python" --version)"
  "$python" -m venv --clear .venv
fi

echo "Installing what requirements-dev.lock pins"
install=(.venv/bin/python -m pip install --quiet --disable-pip-version-check --progress-bar off)
"${install[@]}" --require-hashes --requirement requirements-dev.lock
# The lock has the build backend as well, so nothing is fetched for this.
"${install[@]}" --no-deps --no-build-isolation --editable .
