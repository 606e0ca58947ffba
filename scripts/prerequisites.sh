#!/usr/bin/env bash
# Prints the interpreter to make .venv with, or one line that says what this machine lacks.
# With --packages: prints the Debian packages that are missing, for a machine that may install them.
set -euo pipefail

# The distribution's interpreter comes first: it is built with profile-guided optimization, and one
# that pyenv built on the machine, without, takes a seventh longer for everything.
candidates=${PYTHON3:-/usr/bin/python3 python3 python3.13 python3.12 python3.11}
python=
without_venv=
for candidate in $candidates; do
  if ! "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; then
    continue
  elif "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
    python=$candidate
    break
  fi
  without_venv=${without_venv:-$candidate}
done

missing=()
if [ -z "$python$without_venv" ]; then
  missing+=(python3)
elif [ -z "$python" ]; then
  python=$without_venv
  missing+=("$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')")
fi
command -v git >/dev/null || missing+=(git)
# vLLM's CPU kernels are linked against libnuma, which its wheel does not carry.
"${python:-python3}" -c 'import ctypes; ctypes.CDLL("libnuma.so.1")' 2>/dev/null || missing+=(libnuma1)

if [ "${1:-}" = --packages ]; then
  echo "${missing[@]}"
elif [ -z "$python" ]; then
  echo "Podium runs on Python 3.11, 3.12 and 3.13, but ${PYTHON3:-python3} is $("${PYTHON3:-python3}" --version 2>/dev/null || echo missing): make PYTHON3=/path/to/python" >&2
  exit 1
elif ((${#missing[@]})); then
  echo "missing on this machine: ${missing[*]}; sudo apt-get install ${missing[*]}" >&2
  exit 1
else
  echo "$python"
fi
