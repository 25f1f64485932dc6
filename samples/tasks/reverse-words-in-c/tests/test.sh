#!/bin/bash
mkdir -p /logs/verifier
echo 0 > /logs/verifier/reward.txt
gcc -O2 -Wall -Wextra -Werror -o /tmp/reverse /app/reverse.c || exit 0
same() { [ "$(printf "$1" | timeout 10 /tmp/reverse)" = "$(printf "$2")" ]; }
long=$(seq 1 20000 | tr '\n' ' ')
gnol=$(seq 20000 -1 1 | tr '\n' ' ')
same 'a b c\n' 'c b a\n' &&
  same 'one\n\ntwo  three\n' 'one\n\nthree two\n' &&
  same '  padded  line \nlast' 'line padded\nlast\n' &&
  same "$long" "${gnol% }\n" &&
  echo 1 > /logs/verifier/reward.txt
exit 0
