#!/bin/bash
mkdir -p /logs/verifier
reward=1
while read -r text expected; do
  [ "$text" = - ] && text=''
  found=$(timeout 10 node --input-type=module -e 'console.log((await import("/app/duration.mjs")).seconds(process.argv[1]))' -- "$text")
  [ "$found" = "$expected" ] || { echo "seconds('$text') is $found, not $expected"; reward=0; }
done <<'CASES'
90s 90
2m 120
1h 3600
1h30m 5400
1h5s 3605
1h2m3s 3723
0s 0
- undefined
5 undefined
m undefined
30m1h undefined
1h1h undefined
1.5h undefined
-1s undefined
1h! undefined
CASES
echo "$reward" > /logs/verifier/reward.txt
