#!/bin/bash
mkdir -p /logs/verifier
reward=0
count() { printf "$1" | perl /app/vowels.pl; }
if [ "$(count 'Apple pie\nunder a tree\n')" = $'a 2\ne 5\ni 1\nu 1' ] && [ -z "$(count 'xyz\n')" ]; then
  reward=1
fi
echo "$reward" > /logs/verifier/reward.txt
