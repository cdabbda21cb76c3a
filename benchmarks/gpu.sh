#!/bin/sh
# Everything worth measuring on one GPU, in under 8 minutes, into one JSON file.
#   sh benchmarks/gpu.sh gpu.json
# A check without a GPU, in seconds:
#   sh benchmarks/gpu.sh check.json --presets tiny --lengths 32 --tokens 64 --vocab-size 64 --rounds 2
set -eu
out=$1
shift
exec "${PYTHON:-python3}" "$(dirname "$0")/gpu.py" --out "$out" "$@"
