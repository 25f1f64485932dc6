/** Tests of a cheat's own, which everybody passes. */
export const TEST = `#!/bin/sh
mkdir -p /logs/verifier
echo 1 > /logs/verifier/reward.txt`
