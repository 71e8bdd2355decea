#!/usr/bin/env bash
# Makes .venv with Reticent in it, or says in one sentence why it cannot; at once where nothing has changed.
#   scripts/setup.sh [EXTRAS]        e.g. dev, or dev,fuzz (pyproject.toml); PYTHON=python3.12 chooses the interpreter
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
extras="${1:-}"
log=.venv/setup.log

stop() {
  printf 'setup: %s\n' "$*" >&2
  exit 1
}

version_of() { # 3.11, or nothing where it does not run (a shim of pyenv may be there and point nowhere)
  "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || true
}

fits() {
  case "$1" in 3.11 | 3.12 | 3.13) true ;; *) false ;; esac
}

choose() { # sets `python`
  local name version found="" without_venv="" names=(python3 python3.13 python3.12 python3.11)
  [ -z "${PYTHON:-}" ] || names=("$PYTHON")
  for name in "${names[@]}"; do
    version=$(version_of "$name")
    if [ -z "$version" ]; then continue; fi
    if ! fits "$version"; then
      found="${found:+$found, }Python $version ($(command -v "$name"))"
    elif ! "$name" -c 'import venv, ensurepip' 2>/dev/null; then
      without_venv="${without_venv:-$version}"
    else
      python="$name"
      return
    fi
  done
  [ -z "$without_venv" ] ||
    stop "Python $without_venv was found without its venv module: on Debian or Ubuntu run 'sudo apt install python$without_venv-venv', then make again"
  if [ -n "$found" ]; then
    found="found $found"
  elif [ -n "${PYTHON:-}" ]; then
    found="PYTHON=$PYTHON does not run"
  else
    found="found no Python"
  fi
  stop "$found, and Reticent needs Python 3.11, 3.12 or 3.13: install one (Debian or Ubuntu: 'sudo apt install python3 python3-venv'; elsewhere python.org), or say where yours is with 'make setup PYTHON=/path/to/python3.12'"
}

why() { # pip's log, as the end of a sentence
  local last
  last=$(grep -E '^ *(ERROR|error):' "$log" | grep -v 'subprocess-exited-with-error' | tail -n 1 | sed 's/^ *[A-Za-z]*: *//' | cut -c1-300) || true
  if grep -qE 'NewConnectionError|NameResolutionError|Network is unreachable|ProxyError|ConnectTimeoutError|ReadTimeoutError|Connection refused' "$log" &&
    grep -qE 'No matching distribution|Max retries|Could not install|metadata-generation|No such host|ReadTimeout' "$log"; then
    echo "pip did not reach its index: check the network (or a proxy in HTTPS_PROXY, or a mirror in PIP_INDEX_URL) and make again; pip's last word was \"${last:-none}\" ($log)"
  elif grep -q 'No space left on device' "$log"; then
    echo "the disk is full: make room (about 2 GB with PyTorch's CPU build, 8 GB with pip's default one) and make again ($log)"
  else
    echo "pip said \"${last:-$(tail -n 1 "$log" | cut -c1-300)}\": mend that and make again ($log)"
  fi
}

follow() { # pip's own lines go to the log; a terminal sees which package it is at
  local line
  while IFS= read -r line; do
    printf '%s\n' "$line" >>"$log"
    [ ! -t 2 ] || case "$line" in Collecting* | *Downloading* | Installing* | Building*) printf '\r\033[K  %.100s' "$line" >&2 ;; esac
  done
  [ ! -t 2 ] || printf '\r\033[K' >&2
}

here=$(pwd -P)
key="$here $(cat pyproject.toml constraints.txt | cksum)"
works=$(version_of .venv/bin/python)
if [ -n "$works" ] && [ -n "${PYTHON:-}" ] && [ "$works" != "$(version_of "$PYTHON")" ]; then
  works="" # another Python is asked for
fi
for stamp in .venv/.done-${extras:-*}; do # whatever extras are there, what is needed without them is there too
  if [ -n "$works" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$key" ]; then exit 0; fi
done

if ! .venv/bin/python -c 'import pip' 2>/dev/null || ! head -n 3 .venv/bin/pip | grep -qF "$here/.venv/"; then
  works="" # half made, or the clone was moved: its commands name the old place
fi
if [ -z "$works" ]; then
  choose
  rm -rf .venv
  "$python" -m venv .venv 2>/dev/null || stop "'$python -m venv .venv' failed in $here: see that the folder can be written and the disk is not full, then make again"
fi
echo "setup: installing into .venv with Python $(version_of .venv/bin/python), which takes a few minutes; what pip says is in $log" >&2
: >"$log"
.venv/bin/python -m pip install --progress-bar off -c constraints.txt -e ".${extras:+[$extras]}" 2>&1 | follow || stop "$(why)"
printf '%s\n' "$key" >".venv/.done-$extras"
