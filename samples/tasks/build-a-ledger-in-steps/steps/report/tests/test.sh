#!/bin/bash
mkdir -p /logs/verifier
if [ "$(cat /app/report.txt)" = $'entries: 4\ntotal: 60.75' ]; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
