#!/bin/bash
mkdir -p /logs/verifier
reward=0
for line in $(seq 1 47); do echo "line $line of the book"; done > /tmp/book.txt
if [ "$(cat /app/report.txt)" = '5 235' ] &&
  [ "$(ls /app/pages | wc -l)" = 5 ] &&
  cat /app/pages/{1,2,3,4,5}.txt | cmp -s - /tmp/book.txt &&
  [ "$(wc -l < /app/pages/5.txt)" = 7 ]; then
  reward=1
fi
echo "$reward" > /logs/verifier/reward.txt
