#!/bin/bash
mkdir -p /logs/verifier
cd /app || exit 1
reward=1
expect() {
  local expected=$1
  shift
  [ "$(python3 median.py "$@")" = "$expected" ] || { echo "median of $* is not $expected"; reward=0; }
}
expect 2.0 1 2 3
expect 2.5 1 2 3 4
expect 2.5 4 1 3 2
expect 7.0 7
expect 0.0 -1 1
expect nothing
python3 median.py && reward=0
echo "$reward" > /logs/verifier/reward.txt
