#!/bin/bash
mkdir -p /logs/verifier
reward=0
if [ "$(/app/greet.sh)" = 'Hello, world!' ] &&
  [ "$(/app/greet.sh Ada)" = 'Hello, Ada!' ] &&
  [ "$(/app/greet.sh 'Grace Hopper')" = 'Hello, Grace Hopper!' ]; then
  reward=1
fi
echo "$reward" > /logs/verifier/reward.txt
