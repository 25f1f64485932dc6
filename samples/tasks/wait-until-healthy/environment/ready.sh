#!/bin/bash
# Not healthy the first two times; the third time the token is there.
echo x >> /tmp/asked
[ "$(wc -l < /tmp/asked)" -ge 3 ] || exit 1
[ -f /app/token ] || echo 'open sesame' > /app/token
