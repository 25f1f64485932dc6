#!/bin/bash
# The same script after each step: what it expects is in the file that the step brings with it.
mkdir -p /logs/verifier
if cmp -s /app/names.txt /tests/expected.txt; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
