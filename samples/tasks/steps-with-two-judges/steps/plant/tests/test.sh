#!/bin/bash
mkdir -p /logs/verifier
if [ "$(ls /app/garden | tr '\n' ' ')" = 'bean leek pea ' ]; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
