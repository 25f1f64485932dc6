#!/bin/bash
mkdir -p /logs/verifier
if [ "$(cat /srv/missing.txt)" = $'pear\nquince' ]; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
