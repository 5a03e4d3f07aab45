#!/usr/bin/env bash
# Run a command that may use Delta's Spark connector: scripts/with-delta.sh COMMAND [ARGUMENT...]
#
# Its jars are fetched once into .cache, by Maven and from where Maven is set up to look, and named
# in POLYLAKE_TEST_DELTA_JARS. Without them the command runs all the same, and the reason is
# printed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=4.4.0
# What the connector needs beyond what Spark itself brings.
artifacts=(delta-spark_4.2_2.13 delta-storage delta-kernel-api delta-kernel-defaults)
folder=$PWD/.cache/delta-spark-$version

fetch() {
  command -v mvn >/dev/null || {
    reason="it is fetched by Maven, and there is no 'mvn' on the PATH"
    return 1
  }
  echo "Fetching Delta's Spark connector $version"
  local work artifact
  mkdir -p .cache
  work=$(mktemp -d -p "$PWD/.cache")
  {
    echo "<project><modelVersion>4.0.0</modelVersion><groupId>local</groupId>"
    echo "<artifactId>jars</artifactId><version>1</version><dependencies>"
    for artifact in "${artifacts[@]}"; do
      echo "<dependency><groupId>io.delta</groupId><artifactId>$artifact</artifactId>"
      echo "<version>$version</version><exclusions><exclusion><groupId>*</groupId>"
      echo "<artifactId>*</artifactId></exclusion></exclusions></dependency>"
    done
    echo "</dependencies></project>"
  } >"$work/pom.xml"
  timeout 5m mvn -q -B -f "$work/pom.xml" dependency:copy-dependencies \
    -DoutputDirectory="$work/jars" >"$work/log" 2>&1 || {
    tail -n 5 "$work/log"
    rm -rf "$work"
    reason="Maven did not get it, see above"
    return 1
  }
  mv -T "$work/jars" "$folder" # at once, so that the folder is never there by half
  rm -rf "$work"
}

if [ -d "$folder" ] || fetch; then
  POLYLAKE_TEST_DELTA_JARS=$(printf '%s,' "$folder"/*.jar)
  export POLYLAKE_TEST_DELTA_JARS=${POLYLAKE_TEST_DELTA_JARS%,}
else
  echo "SKIPPED: no Delta connector: $reason"
fi

exec "$@"
