#!/bin/bash
mkdir -p /logs/verifier
reward=0
if [ "$(id -u)" = 0 ] &&
  [ "$(stat -c '%U %a' /home/dev/box)" = 'dev 700' ] &&
  [ "$(stat -c '%U %a' /home/dev/box/note)" = 'dev 600' ] &&
  [ "$(cat /home/dev/box/note)" = dev ]; then
  reward=1
fi
echo "$reward" > /logs/verifier/reward.txt
