#!/bin/bash
for _ in 1 2 3 4 5 6 7 8 9 10; do
  (exec 3<> /dev/tcp/counter/8000) 2> /dev/null && break
  sleep 1
done
for path in open open open close; do curl -fsS "http://counter:8000/$path"; done
