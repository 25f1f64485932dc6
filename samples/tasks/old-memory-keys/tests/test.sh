#!/bin/bash
mkdir -p /logs/verifier
if [ "$(cat /app/top.txt)" = $'10.0.0.4\n10.0.0.9\n10.0.0.7' ]; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
