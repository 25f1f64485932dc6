#!/bin/bash
for number in $(seq 2 99); do
  [ "$(factor "$number" | wc -w)" = 2 ] && echo "$number"
done > /app/primes.txt
