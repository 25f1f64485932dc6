#!/bin/bash
# In an image of its own: of the agent's work there is only what was collected.
mkdir -p /logs/verifier
if [ "$(cat /srv/visits.json)" = '{"/close": 1, "/open": 3}' ]; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
