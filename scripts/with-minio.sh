#!/usr/bin/env bash
# Run a command while a MinIO server is up: scripts/with-minio.sh COMMAND [ARGUMENT...]
#
# The server is built once into .cache/bin, listens on a free loopback port and keeps its data in
# a folder that goes when it goes. Without it the command runs all the same,
# and the reason is printed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# MinIO's releases are no Go versions, so a commit is pinned.
version=v0.0.0-20260212201848-7aac2a2c5b7c
minio=$PWD/.cache/bin/minio-$version
wanted=("$@")

without_it() {
  echo "SKIPPED: no MinIO server: $1"
  exec "${wanted[@]}"
}

if [ ! -x "$minio" ]; then
  command -v go >/dev/null || without_it "it is built with Go, and there is no 'go' on the PATH"
  echo "Building MinIO $version: some minutes, once"
  build=$(mktemp -d)
  GOBIN=$build timeout 20m go install -p 2 "github.com/minio/minio@$version" >"$build/log" 2>&1 || {
    tail -n 5 "$build/log"
    rm -rf "$build"
    without_it "go install did not get there, see above"
  }
  mkdir -p .cache/bin
  mv "$build/minio" "$minio"
  rm -rf "$build"
fi

data=$(mktemp -d)
server=
stop() {
  [ -z "$server" ] || { kill "$server" && wait "$server"; } 2>/dev/null || true
  rm -rf "$data"
}
trap stop EXIT

port=$(.venv/bin/python -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
export POLYLAKE_TEST_MINIO_ENDPOINT=http://127.0.0.1:$port
export POLYLAKE_TEST_MINIO_ACCESS_KEY=polylake
export POLYLAKE_TEST_MINIO_SECRET_KEY=polylake-secret
export POLYLAKE_TEST_MINIO_BUCKET=polylake-test
export no_proxy=${no_proxy:+$no_proxy,}127.0.0.1

mkdir -p "$data/drive/$POLYLAKE_TEST_MINIO_BUCKET" # a folder of the drive is a bucket
MINIO_ROOT_USER=$POLYLAKE_TEST_MINIO_ACCESS_KEY MINIO_ROOT_PASSWORD=$POLYLAKE_TEST_MINIO_SECRET_KEY \
  MINIO_BROWSER=off MINIO_UPDATE=off MINIO_CI_CD=1 \
  "$minio" server --quiet --address "127.0.0.1:$port" "$data/drive" >"$data/log" 2>&1 &
server=$!

ready() {
  .venv/bin/python - "$POLYLAKE_TEST_MINIO_ENDPOINT/minio/health/ready" <<'END'
import sys, urllib.request
try:
    urllib.request.urlopen(sys.argv[1], timeout=2).close()
except OSError:
    sys.exit(1)
END
}
for _ in $(seq 60); do
  if ready; then break; fi
  kill -0 "$server" 2>/dev/null || break
  sleep 0.5
done
ready || {
  tail -n 20 "$data/log" >&2
  echo "MinIO did not start" >&2
  exit 1
}

"${wanted[@]}"
