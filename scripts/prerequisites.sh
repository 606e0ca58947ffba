#!/usr/bin/env bash
# Prints the interpreter to make .venv with, or one line that says what this machine lacks.
# With --packages: prints the Debian packages that are missing, for a machine that may install them.
set -euo pipefail

python=
for candidate in ${PYTHON3:-python3 python3.13 python3.12 python3.11}; do
  if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; then
    python=$candidate
    break
  fi
done

missing=()
if [ -z "$python" ]; then
  missing+=(python3)
elif ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
  missing+=("$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')")
fi
command -v git >/dev/null || missing+=(git)
# vLLM's CPU kernels are linked against libnuma, which its wheel does not carry.
"${python:-python3}" -c 'import ctypes; ctypes.CDLL("libnuma.so.1")' 2>/dev/null || missing+=(libnuma1)

if [ "${1:-}" = --packages ]; then
  echo "${missing[@]}"
elif [ -z "$python" ]; then
  echo "Podium runs on Python 3.11, 3.12 and 3.13, but ${PYTHON3:-python3} is $("${PYTHON3:-python3}" --version 2>&1 || true): make PYTHON3=/path/to/python" >&2
  exit 1
elif ((${#missing[@]})); then
  echo "missing on this machine: ${missing[*]}; sudo apt-get install ${missing[*]}" >&2
  exit 1
else
  echo "$python"
fi
