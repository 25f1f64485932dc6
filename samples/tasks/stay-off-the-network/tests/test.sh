#!/bin/bash
mkdir -p /logs/verifier
if [ "$(cat /app/addresses.txt)" = $'10.0.0.1\n8.8.8.8\n0.0.0.0' ]; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
