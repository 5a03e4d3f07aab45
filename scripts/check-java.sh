#!/usr/bin/env bash
# Make sure that Java 17 or newer is here, which Spark needs; on Debian, root installs it.
set -euo pipefail
wanted=17

java_major() {
  local java=java
  [ -z "${JAVA_HOME:-}" ] || java="$JAVA_HOME/bin/java"
  # Java 8 calls itself 1.8; from 9 on the first number counts.
  "$java" -version 2>&1 | sed -nE 's/.* version "(1\.)?([0-9]+).*/\2/p' | head -n 1
}

found=$(java_major || true)
if [ "${found:-0}" -ge "$wanted" ]; then
  echo "Java $found"
  exit 0
fi

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  apt-get update -qq
  for version in 21 17 25; do
    package=openjdk-$version-jre-headless
    if apt-cache show "$package" >/dev/null 2>&1; then
      DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$package"
      echo "Java $(java_major)"
      exit 0
    fi
  done
fi

cat >&2 <<END
Spark needs Java $wanted or newer; found: ${found:-none}.
On Debian or Ubuntu type:
  sudo apt-get install openjdk-17-jre-headless    (or openjdk-21-jre-headless, where 17 is gone)
A Java elsewhere is found through JAVA_HOME.
END
exit 1
