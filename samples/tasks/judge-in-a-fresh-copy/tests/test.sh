#!/bin/bash
mkdir -p /logs/verifier
primes='2 3 5 7 11 13 17 19 23 29 31 37 41 43 47 53 59 61 67 71 73 79 83 89 97'
if [ "$(cat /app/primes.txt)" = "$(tr ' ' '\n' <<< "$primes")" ]; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
