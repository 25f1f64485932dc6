#!/bin/bash
cut -d ' ' -f 1 /app/requests.txt | sort | uniq -c | sort -rn | head -n 3 | awk '{ print $2 }' > /app/top.txt
