#!/bin/bash
mkdir -p /logs/verifier
reward=0
if [ "$(timeout 2 /app/slow.sh 1000000000)" = 500000000500000000 ] &&
  [ "$(timeout 2 /app/slow.sh 10)" = 55 ] &&
  [ "$(timeout 2 /app/slow.sh 0)" = 0 ]; then
  reward=1
fi
echo "$reward" > /logs/verifier/reward.txt
