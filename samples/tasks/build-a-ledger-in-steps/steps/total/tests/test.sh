#!/bin/bash
mkdir -p /logs/verifier
total=$(cat /app/total.txt 2> /dev/null)
rows=$(wc -l < /app/ledger.csv)
right=$(awk -v a="${total:-0}" -v b="$EXPECTED" -v t="$TOLERANCE" 'BEGIN { d = a - b; print (d < t && d > -t) ? 1 : 0 }')
printf '{"reward": %s, "rows": %s}\n' "$right" "$([ "$rows" = 4 ] && echo 1 || echo 0)" > /logs/verifier/reward.json
